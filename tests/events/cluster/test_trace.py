"""One cluster of a recorded launch: its waits, pipelines, operations and states, against the kernel's source."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from sglab.events.cluster import KINDS, ClusterTrace
from sglab.events.cluster.columns import readable
from sglab.events.tables import COPY_KINDS, WAIT_KINDS
from tests.support.launches.recorded import mla_sm100


@pytest.fixture(scope="module")
def sm100() -> ClusterTrace:
    return ClusterTrace(mla_sm100(512))


def test_pipelines_are_those_of_the_source(sm100: ClusterTrace) -> None:
    """Shared in csrc/kernels/sm100/mla_decode.cu lists them: stages, who arrives and who waits."""
    rings = [(each["name"], each["rank"], len(each["full"]), len(each["empty"])) for each in sm100.pipelines()]
    assert ("load→mma", 0, 7, 7) in rings  # K and V
    assert ("load→mma #2", 0, 1, 1) in rings  # Q
    for rank in range(2):
        assert ("page table→load", rank, 4, 4) in rings
        assert ("mma→softmax", rank, 2, 0) in rings
    assert ("softmax→mma", 0, 2, 0) in rings
    names = {each["name"] for each in sm100.barrier_names()}
    assert {"load→mma full[6]", "mma→load empty[0]", "softmax barrier 1", "cluster barrier"} <= names


def test_waits_name_the_arrival_that_released_them(sm100: ClusterTrace) -> None:
    log = mla_sm100(512)
    since, event, row, kind, barrier, phase, cause = sm100.waits()
    position, phase_barrier, _, ended_by, _ = sm100.phases()
    released = phase >= 0
    assert released.sum() > 20
    assert (barrier[released] == phase_barrier[phase[released]]).all()
    assert (cause[released] == ended_by[phase[released]]).all()
    assert (position[phase[released]] <= event[released]).all()
    assert (since < event).all()
    assert row.tolist() == (log.cta[event] * 11 + log.warp[event]).tolist()
    asynchronous = kind == WAIT_KINDS.index("async")
    assert (barrier[asynchronous] == -1).all()


def test_copies_for_one_phase_are_one_span(sm100: ClusterTrace) -> None:
    log, names = sm100.log, sm100.barrier_names()
    first, done, row, track, kind, barrier, nbytes, count, last, _ = sm100.operations().table
    copies = track == 0
    assert count[copies].sum() == len(log.copies.event)
    assert nbytes[copies].sum() == log.copies.nbytes.sum()
    assert (first <= last).all()
    assert (last < done).all()
    assert {KINDS[each] for each in kind[copies]} == {"tensor load"}
    assert {names[each]["name"].split(" ")[0] for each in barrier[copies]} == {"load→mma"}
    roles = [log.roles.of(cta, warp).name for cta in sm100.ctas for warp in range(sm100.warps)]
    assert {roles[each] for each in row[copies]} == {"load"}


def test_states_end_where_phases_do(sm100: ClusterTrace) -> None:
    """A complete phase has no pending arrivals and no bytes under way: then the next begins, the parity turns."""
    names = sm100.barrier_names()
    position, barrier, parity, pending, expected, tx = sm100.states()
    ended_at, ended, number, *_ = sm100.phases()
    for at, which, phase in zip(ended_at, ended, number, strict=True):
        if names[which]["kind"] != "mbarrier":
            continue
        rows = np.flatnonzero((barrier == which) & (position <= at))
        assert parity[rows[-1]] == (phase + 1) % 2
        assert pending[rows[-1]] == expected[rows[-1]]
        assert tx[rows[-1]] == 0


def test_a_copy_names_its_map_its_place_and_its_bytes(sm100: ClusterTrace) -> None:
    table = sm100.log.copies
    event, kind, tensor_map, *coordinates, nbytes, shared, multicast = sm100.copies()
    assert event.tolist() == table.event.tolist()
    assert {COPY_KINDS[each] for each in kind} == {"tensor load"}
    assert (tensor_map >= 0).all()
    assert np.stack(coordinates, axis=1).tolist() == table.coordinates.tolist()
    assert nbytes.sum() == table.nbytes.sum()
    assert (shared >= 0).all() and len(multicast) == len(event)


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("mla_decode_sm100_f16", "mla_decode_sm100_f16"),
        ("_Z10vector_addPfS_i", "vector_add"),
        ("kernel_cutlass_vadd_tensorptrf32generico1_tensorptrf32generico1_0", "vadd"),
        (
            "kernel_cutlass_decode_flashinfercute_dslattentiongqa_decodeGroupedQueryAttentionDecode_object_at__256_4_1_T",
            "GroupedQueryAttentionDecode.decode…",
        ),
        ("kernel_cutlass_split_kv___main__Decode_object_at__256_4_1", "Decode.split_kv"),
        ("_ZN2at6native29vectorized_elementwise_kernelILi4EfEEvv", "at::native::vectorized_elementwise_kernel"),
        (
            "_ZN7cutlass13device_kernelINS_4fmha6kernel36Sm100FmhaMlaKernelTmaWarpspecializedIN4cute5tupleEEEEEvv",
            "cutlass::device_kernel<Sm100FmhaMlaKernelTmaWarpspecialized, …>",
        ),
    ],
)
def test_mangled_names_are_readable(mangled: str, name: str) -> None:
    assert readable(mangled) == name
