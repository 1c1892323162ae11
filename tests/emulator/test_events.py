"""Event logs agree with the launch's report, with stepping, and with what the kernel's source says."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu  # noqa: E402
from sglab.gpu.events import CLUSTER, MBARRIER, NAMED, READ, SHARED, WAIT_KINDS, WRITE, EventLog  # noqa: E402
from sglab.trace.perfetto import save_perfetto  # noqa: E402

KERNELS = gpu.load(Path(__file__).parent / "ptx" / "session.ptx")


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


def test_a_fault_during_recording_is_the_launchs() -> None:
    kernel = KERNELS["clock_and_out_of_bounds"]
    with pytest.raises(gpu.KernelError, match="behind the end"):
        kernel.record(gpu.EmulatedDevice("sm_90a"), grid=1, block=32, args=[torch.zeros(32, dtype=torch.int64), 1])
