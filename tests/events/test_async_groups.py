"""cp.async groups of real runs: counted as the PTX ISA says, thread by thread."""

from __future__ import annotations

import numpy as np
import torch

from sglab import gpu
from sglab.events.async_groups import AsyncPipeline, async_groups
from sglab.labs.shared_memory import PagedDecode
from tests.support.emulator.tensor_ptx import kernel_text
from tests.support.launches.memory_sessions import corpus


def numbers_after(pipeline: AsyncPipeline, event: int) -> list[int]:
    """The closed groups that may be in flight when this event has happened."""
    return [one.number for one in pipeline.groups if 0 <= one.committed <= event and not 0 <= one.completed <= event]


def test_paged_decode_keeps_three_groups_in_flight_for_k_and_two_for_v() -> None:
    """Two stages of K and V: wait_group 3 and 2 in turn, and 0 at the end."""
    log = PagedDecode(tokens=60).session().log
    pipelines = async_groups(log)
    assert [(one.warp, one.lanes) for one in pipelines] == [(warp, 0xFFFFFFFF) for warp in range(4)]
    for pipeline in pipelines:
        waits = pipeline.waits
        tiles = 8  # 60 tokens in tiles of 4 keys for each of 2 rows of threads
        assert [wait.left for wait in waits] == [3, 2] * tiles + [0]
        assert [len(wait.in_flight) for wait in waits] == [3, 2] * tiles + [0]
        assert [wait.completed for wait in waits[:-1]] == [[number] for number in range(2 * tiles)]
        assert all(numbers_after(pipeline, wait.event) == wait.in_flight for wait in waits)
        closed = pipeline.groups[:-1]
        assert all((group.copies, group.nbytes, group.end - group.start) == (1, 512, 512) for group in closed)
        assert pipeline.groups[-1].committed < 0
        # K and V of two stages: four places, in turn.
        assert [group.start for group in closed[:4]] == [group.start for group in closed[4:8]]
        assert len({group.start for group in closed[:4]}) == 4


def test_the_bytes_of_all_groups_are_those_that_the_copies_moved() -> None:
    log = PagedDecode(tokens=37).session().log
    copied = int(log.copies.nbytes.sum())
    assert sum(group.nbytes for one in async_groups(log) for group in one.groups) == copied > 0


def test_a_wait_completes_all_but_the_latest_groups() -> None:
    """The corpus's two-stage copy: after the wait for all but one, the group before the latest is done."""
    (first, *_) = async_groups(corpus("cp_async_copy.sm_80").log)
    wait = first.waits[0]
    assert (wait.left, wait.completed, wait.in_flight) == (1, [0], [1])
    assert first.groups[0].start != first.groups[1].start
    assert all(group.completed >= 0 for group in first.groups[:-1])


COPY = "cp.async.ca.shared.global [%r1], [%rd1], 16;\n"
DIVERGED = f"""
mov.u32 %r0, %tid.x;
mov.u32 %r1, data;
shl.b32 %r2, %r0, 4;
add.u32 %r1, %r1, %r2;
ld.param.u64 %rd1, [p0];
{COPY}
setp.lt.u32 %p0, %r0, 8;
@!%p0 bra REST;
cp.async.commit_group;
cp.async.wait_group 0;
REST:
bar.warp.sync 0xffffffff;
{COPY}
cp.async.wait_all;
"""


def test_threads_that_part_count_their_own_groups_and_wait_all_closes_what_is_open() -> None:
    text = kernel_text(DIVERGED.replace("; ", ";\n"), ".param .u64 p0", shared=".shared .align 16 .b8 data[512];")
    session = gpu.Module(text, "parted.ptx")["kernel"].session(
        gpu.EmulatedDevice("sm_100a"), grid=1, block=32, args=[torch.zeros(16)]
    )
    few, many = async_groups(session.log)
    assert (few.lanes, many.lanes) == (0xFF, 0xFFFFFF00)
    assert [wait.completed for wait in few.waits] == [[0], [1]]
    assert [wait.completed for wait in many.waits] == [[0]]
    assert [group.nbytes for group in few.groups] == [128, 128, 0]
    assert [group.nbytes for group in many.groups] == [2 * 24 * 16, 0]


def test_a_kernel_without_cp_async_has_none() -> None:
    log = corpus("wgmma_gemm.sm_90a").log
    assert async_groups(log) == [] and np.size(log.pc) > 0
