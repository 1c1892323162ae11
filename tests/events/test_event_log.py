"""Event logs agree with the launch's report, with stepping, and with what the kernel's source says."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.events.log import (
    CLUSTER,
    COPY_KINDS,
    ELEMENT_TYPES,
    MBARRIER,
    MMA_KINDS,
    NAMED,
    READ,
    SHARED,
    TMEM_KINDS,
    WAIT_KINDS,
    WRITE,
    EventLog,
)
from sglab.events.perfetto import save_perfetto
from sglab.events.tables import FAILED
from tests.support.launches.pipelines import PIPELINES
from tests.support.launches.session_lines import SESSION_PTX

KERNELS = gpu.load(SESSION_PTX)


def arguments(kernel: str) -> list[Any]:
    if kernel == "reduce":
        return [torch.from_numpy(np.random.default_rng(0).standard_normal(2000, np.float32)), torch.zeros(1), 2000]
    if kernel == "collatz":
        return [torch.arange(1, 193, dtype=torch.int32), torch.zeros(192, dtype=torch.int32)]
    return [torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)]


BLOCKS = {"reduce": 128, "collatz": 64, "spin_lock": 64}


def record(kernel: str, details: bool = True, **device: Any) -> tuple[EventLog, list[Any]]:
    values = arguments(kernel)
    emulated = gpu.EmulatedDevice("sm_90a", **device)
    return KERNELS[kernel].record(emulated, grid=3, block=BLOCKS[kernel], args=values, details=details), values


@pytest.mark.parametrize("details", [False, True])
@pytest.mark.parametrize("scheduler", ["fair", "random", "adversarial", "in_order"])
@pytest.mark.parametrize("kernel", BLOCKS)
def test_counts_and_results_equal_those_of_a_launch(kernel: str, scheduler: Any, details: bool) -> None:
    values = arguments(kernel)
    device = gpu.EmulatedDevice("sm_90a", scheduler=scheduler, seed=5)
    report = KERNELS[kernel].launch(device, grid=3, block=BLOCKS[kernel], args=values)
    log, recorded = record(kernel, details, scheduler=scheduler, seed=5)
    assert all(torch.equal(a, b) for a, b in zip(values[:2], recorded[:2], strict=True))
    assert len(log) == report.warp_instructions == log.report.warp_instructions
    assert log.report.executions == report.executions
    counts = Counter(log.kinds[kind] for kind in log.kind.tolist())
    assert counts == {name: count for name, count in report.by_class.items() if count}


@pytest.mark.parametrize("kernel", BLOCKS)
def test_the_order_is_that_of_stepping(kernel: str) -> None:
    log, _ = record(kernel)
    session = KERNELS[kernel].session(
        gpu.EmulatedDevice("sm_90a"), grid=3, block=BLOCKS[kernel], args=arguments(kernel)
    )
    for event in range(min(len(log), 3000)):
        at = session.step().at
        assert (log.cta[event], log.warp[event], log.pc[event]) == (at.cta, at.warp, at.instruction.pc)
        assert log.mask[event] == at.mask
        assert log.lanes[event] == at.mask.bit_count()


def test_accesses_tell_addresses_and_bytes() -> None:
    log, (a, out, n) = record("reduce")
    accesses = log.accesses
    opcodes = [log.code[pc].opcode for pc in log.pc[accesses.event].tolist()]
    loads = np.array([name.startswith("ld.global") for name in opcodes])
    assert accesses.nbytes[loads].sum() == 4 * n
    begin, end = a.data_ptr(), a.data_ptr() + 4 * n
    assert (accesses.address[loads] >= begin).all()
    assert (accesses.address[loads] + accesses.span[loads] <= end).all()
    atomics = np.array([name.startswith("atom") for name in opcodes])
    assert (accesses.address[atomics] == out.data_ptr()).all()
    assert (accesses.kind[atomics] == READ | WRITE).all()
    shared = accesses.space == SHARED
    assert (accesses.address[shared] >= 0x400).all()
    assert (accesses.address[shared] + accesses.span[shared] <= 0x400 + 512).all()


ACCESS = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry one(.param .u64 memory, .param .u32 stride) {
  .shared .align 16 .b8 room[32768];
  .reg .b32 %r<8>; .reg .b64 %rd<4>; .reg .pred %p<1>;
  ld.param.u64 %rd0, [memory]; ld.param.u32 %r1, [stride]; mov.u32 %r0, %tid.x; mul.lo.u32 %r2, %r0, %r1;
  mov.u32 %r3, room; add.u32 %r3, %r3, %r2; cvt.u64.u32 %rd1, %r2; add.u64 %rd0, %rd0, %rd1;
  OPERATION
  ret;
}
"""


@pytest.mark.parametrize(
    ("operation", "stride", "sectors", "lines", "wavefronts"),
    [
        ("ld.global.b32 %r4, [%rd0];", 4, 4, 1, 0),
        ("ld.global.b32 %r4, [%rd0];", 0, 1, 1, 0),
        ("ld.global.b32 %r4, [%rd0];", 36, 32, 9, 0),
        ("st.global.b16 [%rd0], 1;", 32, 32, 8, 0),
        ("st.global.v4.b32 [%rd0], {%r0, %r0, %r0, %r0};", 16, 16, 4, 0),
        ("red.global.add.u32 [%rd0], 1;", 256, 32, 32, 0),
        ("ld.shared.b32 %r4, [%r3];", 4, 0, 0, 1),
        ("ld.shared.b32 %r4, [%r3];", 0, 0, 0, 1),
        ("ld.shared.b32 %r4, [%r3];", 8, 0, 0, 2),
        ("st.shared.b32 [%r3], 1;", 128, 0, 0, 32),
        ("ld.shared.b64 %rd2, [%r3];", 8, 0, 0, 2),
        ("ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3];", 16, 0, 0, 4),
        ("ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3];", 64, 0, 0, 16),
        ("red.shared.add.u32 [%r3], 1;", 4, 0, 0, 1),
        ("red.shared.add.u32 [%r3], 1;", 0, 0, 0, 1),  # lanes are counted, and their number added once
        ("red.shared.add.u32 [%r3], 2;", 0, 0, 0, 32),
        ("ld.shared.b8 %r4, [%r3];", 1, 0, 0, 1),
        ("ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3];", 0, 0, 0, 4),
        ("ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd0 + 16];", 0, 1, 1, 0),
        ("ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd0 + 16];", 16, 17, 5, 0),
        ("setp.gt.u32 %p0, %r0, 20; @%p0 ld.shared.b64 %rd2, [%r3];", 8, 0, 0, 1),
    ],
)
def test_accesses_tell_what_they_ask_of_the_memories(
    operation: str, stride: int, sectors: int, lines: int, wavefronts: int
) -> None:
    memory = torch.zeros(4096, dtype=torch.int32)
    base = memory[(-memory.data_ptr() % 256) // 4 :]
    kernel = gpu.Module(ACCESS.replace("OPERATION", operation), "one.ptx")["one"]
    log = gpu.EmulatedDevice("sm_90a").record(kernel.prepare(gpu.EmulatedDevice("sm_90a"), 1, 32, args=[base, stride]))
    accesses = log.accesses
    assert (accesses.sectors[0], accesses.lines[0], accesses.wavefronts[0]) == (sectors, lines, wavefronts)


def test_barriers_have_numbers_and_phases_and_what_waited_says_since_when() -> None:
    log, _ = record("reduce")
    assert (log.barriers.kind == NAMED).all()
    assert (log.barriers.object == 0).all()
    for cta in range(3):
        of_cta = log.cta[log.barriers.event] == cta
        assert of_cta.sum() == 4 * 8
        assert log.barriers.phase[of_cta].max() == 8
    assert (log.waits.since < log.waits.event).all()
    assert set(log.waits.event.tolist()) <= set(log.barriers.event.tolist())
    assert {MBARRIER, CLUSTER}.isdisjoint(log.barriers.kind.tolist())


def test_phases_say_which_arrival_released_which_wait() -> None:
    log, _ = record("reduce")
    phases, waits = log.phases, log.waits
    assert len(phases.event) == 3 * 8
    assert phases.parity.tolist() == (phases.number % 2).tolist()
    for cta in range(3):
        assert phases.number[phases.cta == cta].tolist() == list(range(8))
    opcodes = {log.code[pc].opcode for pc in log.pc[phases.event].tolist()}
    assert opcodes == {"bar.sync"}
    assert {WAIT_KINDS[kind] for kind in waits.kind.tolist()} == {"barrier"}
    released = waits.phase
    assert (log.cta[phases.event[released]] == log.cta[waits.event]).all()
    assert (waits.since <= phases.position[released]).all()
    assert (phases.position[released] < waits.event).all()
    # Of four warps one ends each phase, and the other three have waited for it.
    assert np.bincount(released).tolist() == [3] * 24
    assert set(phases.event.tolist()) | set(waits.event.tolist()) == set(log.barriers.event.tolist())
    assert np.bincount(log.barriers.passed).tolist() == [4] * 24


def test_without_details_there_are_only_instructions() -> None:
    log, _ = record("reduce", details=False)
    assert len(log.accesses.event) == len(log.barriers.event) == len(log.waits.event) == 0


def test_a_perfetto_trace_holds_every_instruction_once(tmp_path: Path) -> None:
    log, _ = record("collatz")
    save_perfetto(log, tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    assert document["otherData"]["clock"].startswith("issue order")
    slices = [event for event in document["traceEvents"] if event["ph"] == "X" and event["cat"] != "wait"]
    assert sum(event["args"]["instructions"] for event in slices) == len(log)
    threads = {(event["pid"], event["tid"]) for event in slices}
    assert threads == {(cta, warp) for cta in range(3) for warp in range(2)}
    for event in slices[:100]:
        assert log.code[int(log.pc[event["ts"]])].ptx_line == event["args"]["ptx_line"]


def test_a_perfetto_trace_shows_operations_from_issue_to_effect_and_what_released_waits(tmp_path: Path) -> None:
    pipeline = PIPELINES["tcgen05"]
    log = pipeline.kernel.record(gpu.EmulatedDevice(pipeline.arch), **pipeline.arguments().launch())
    save_perfetto(log, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {(one["tid"], one["args"]["name"]) for one in events if one["name"] == "thread_name"}
    assert {(4, "warp 4: load"), (5, "warp 5: mma")} <= names
    for track, table in (("TMA and copies", log.copies), ("MMA", log.mmas), ("TMEM", log.tmem)):
        begins = {one["id"]: one["ts"] for one in events if one["ph"] == "b" and one["cat"] == track}
        ends = {one["id"]: one["ts"] for one in events if one["ph"] == "e" and one["cat"] == track}
        assert sorted(begins.values()) == sorted(table.event.tolist())
        assert begins.keys() == ends.keys()
        assert all(begins[name] < ends[name] for name in begins)
    starts = {one["id"]: one for one in events if one["ph"] == "s"}
    released = {one["id"]: one for one in events if one["ph"] == "f"}
    assert len(starts) == (log.waits.phase >= 0).sum() > 0
    assert starts.keys() == released.keys()
    assert all(starts[name]["ts"] <= released[name]["ts"] for name in starts)


# Asynchronous operations


def test_copies_say_what_they_move_where() -> None:
    pipeline = PIPELINES["tcgen05"]
    arguments = pipeline.arguments(k=256)
    log = pipeline.kernel.record(gpu.EmulatedDevice(pipeline.arch), **arguments.launch())
    copies = log.copies
    assert {COPY_KINDS[kind] for kind in copies.kind.tolist()} == {"tensor load"}
    assert [one.dims for one in log.maps] == [(256, 128), (256, 64)]
    assert [one.box for one in log.maps] == [(64, 128), (64, 64)]
    assert [(one.element, one.swizzle, one.strides) for one in log.maps] == [("f16", 3, (512,))] * 2
    assert log.maps[0].address == arguments.a.data_ptr()
    assert copies.map.tolist() == [0, 1] * 4
    assert copies.nbytes.tolist() == [16384, 8192] * 4
    assert copies.coordinates.tolist() == [[64 * (row // 2), 0, 0, 0, 0] for row in range(8)]
    full = [one.object for one in log.roles.barriers if one.name.startswith("load→mma")]
    assert copies.mbarrier.tolist() == [full[row // 2 % 2] for row in range(8)]
    assert (copies.event < copies.done).all()
    assert {log.roles.of(0, warp).name for warp in log.warp[copies.event].tolist()} == {"load"}


@pytest.mark.parametrize(
    ("name", "m", "n", "kind"),
    [("wgmma", 64, 32, "wgmma"), ("tcgen05", 128, 64, "f16"), ("tcgen05 pair", 256, 64, "f16")],
)
def test_multiplications_have_operands_and_run_before_the_phase_that_frees_them(
    name: str, m: int, n: int, kind: str
) -> None:
    pipeline = PIPELINES[name]
    log = pipeline.kernel.record(gpu.EmulatedDevice(pipeline.arch), **pipeline.arguments(k=256).launch())
    mmas = log.mmas
    assert len(mmas.event) == 16
    assert {(MMA_KINDS[k], mm, nn, kk) for k, mm, nn, kk in zip(mmas.kind, mmas.m, mmas.n, mmas.k, strict=True)} == {
        (kind, m, n, 16)
    }
    assert {ELEMENT_TYPES[one] for one in mmas.a_type.tolist()} == {"f16"}
    assert {ELEMENT_TYPES[one] for one in mmas.d_type.tolist()} == {"f32"}
    assert (mmas.cta_group == pipeline.ctas).all()
    # Descriptors hold addresses in units of 16 bytes; k advances by 32 bytes.
    starts = ((mmas.a & np.uint64(0x3FFF)) << np.uint64(4)).tolist()
    loads = {int(shared) & 0xFFFFFF for shared in log.copies.shared.tolist()}
    assert [start - start % 1024 for start in starts[::4]] == [0x400, 0x400 + 1024 * (16 if m > 64 else 8)] * 2
    assert {start - start % 1024 for start in starts} <= loads
    assert [start % 1024 for start in starts] == [0, 32, 64, 96] * 4
    assert mmas.accumulate.tolist() == ([True] * 16 if name == "wgmma" else [False] + [True] * 15)
    assert (mmas.event < mmas.done).all()


def test_tensor_memory_traffic_has_addresses_and_extents() -> None:
    pipeline = PIPELINES["tcgen05"]
    log = pipeline.kernel.record(gpu.EmulatedDevice(pipeline.arch), **pipeline.arguments().launch())
    rows = [
        (TMEM_KINDS[kind], *rest)
        for kind, *rest in zip(
            log.tmem.kind.tolist(),
            log.warp[log.tmem.event].tolist(),
            log.tmem.address.tolist(),
            log.tmem.columns.tolist(),
            log.tmem.lanes.tolist(),
            strict=True,
        )
    ]
    assert rows[0] == ("alloc", 5, 0, 64, 128)
    assert rows[-1] == ("dealloc", 5, 0, 64, 128)
    loads = sorted(row for row in rows if row[0] == "ld")
    assert loads == [("ld", warp, 32 * warp << 16 | 8 * c, 8, 32) for warp in range(4) for c in range(8)]


def test_a_wait_is_released_by_the_commit_or_copy_whose_signal_ended_the_phase() -> None:
    pipeline = PIPELINES["tcgen05"]
    log = pipeline.kernel.record(gpu.EmulatedDevice(pipeline.arch), **pipeline.arguments(k=512).launch())
    phases = log.phases
    for row in np.flatnonzero(phases.kind == MBARRIER).tolist():
        name = log.roles.barrier(0, MBARRIER, int(phases.object[row]))
        opcode = log.code[int(log.pc[phases.event[row]])].opcode
        assert phases.asynchronous[row]
        assert opcode.startswith("cp.async.bulk.tensor" if name.startswith("load") else "tcgen05.commit")
    passes = log.barriers.passed
    empty = [one.object for one in log.roles.barriers if "empty" in one.name]
    first = {int(log.barriers.object[row]): int(passes[row]) for row in np.flatnonzero(passes != FAILED)[::-1].tolist()}
    assert [first[offset] for offset in empty] == [-1, -1]  # a producer finds the stages free
    waited = phases.object[passes[(passes >= 0) & (log.barriers.kind == MBARRIER)]]
    assert (waited == log.barriers.object[(passes >= 0) & (log.barriers.kind == MBARRIER)]).all()


def test_mma_sync_is_among_the_multiplications() -> None:
    ptx = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out) {
  .reg .b32 a<4>, b<2>, d<2>;
  .reg .b64 p;
  ld.param.u64 p, [out];
  mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {d0, d1}, {a0, a1, a2, a3}, {b0, b1}, {d0, d1};
  st.global.b32 [p], d0;
  ret;
}"""
    log = gpu.load(ptx)["k"].record(gpu.EmulatedDevice("sm_80"), grid=2, block=64, args=[torch.zeros(1)])
    mmas = log.mmas
    assert [MMA_KINDS[kind] for kind in mmas.kind.tolist()] == ["mma.sync"] * 4
    assert {(int(m), int(n), int(k)) for m, n, k in zip(mmas.m, mmas.n, mmas.k, strict=True)} == {(16, 8, 16)}
    assert (mmas.event == mmas.done).all()
    assert {log.code[pc].opcode.split(".")[0] for pc in log.pc[mmas.event].tolist()} == {"mma"}
    assert log.roles.names == ("mma",)


def test_a_fault_during_recording_is_the_launchs() -> None:
    kernel = KERNELS["clock_and_out_of_bounds"]
    with pytest.raises(gpu.KernelError, match="past the end"):
        kernel.record(gpu.EmulatedDevice("sm_90a"), grid=1, block=32, args=[torch.zeros(32, dtype=torch.int64), 1])


def test_a_log_says_what_it_holds() -> None:
    log, _ = record("collatz")
    assert len(log) > 1000
    assert repr(log).startswith(f"<EventLog of collatz: {len(log):,} instructions")
