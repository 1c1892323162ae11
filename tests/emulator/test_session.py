"""Sessions: a launch stepped, stopped and taken back passes through the same states and ends as a plain launch does."""

import weakref
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.emulator.session import Session
from tests.support.emulator.schedulers import SCHEDULERS
from tests.support.launches.session_lines import SESSION_PTX

KERNELS = gpu.load(SESSION_PTX)


class Case:
    """A kernel with fresh arguments for each launch."""

    def __init__(self, name: str, grid: int, block: int, arguments: Callable[[], list[Any]]) -> None:
        self.kernel, self.grid, self.block, self.arguments = KERNELS[name], grid, block, arguments

    def session(self, **device: Any) -> tuple[Session, list[Any]]:
        arguments = self.arguments()
        emulated = gpu.EmulatedDevice("sm_90a", **device)
        return self.kernel.session(emulated, grid=self.grid, block=self.block, args=arguments), arguments

    def launch(self, **device: Any) -> tuple[Any, list[Any]]:
        arguments = self.arguments()
        emulated = gpu.EmulatedDevice("sm_90a", **device)
        return self.kernel.launch(emulated, grid=self.grid, block=self.block, args=arguments), arguments


def floats(n: int) -> Any:
    return torch.from_numpy(np.random.default_rng(n).standard_normal(n, np.float32))


CASES = {
    "reduce": Case("reduce", 3, 128, lambda: [floats(2000), torch.zeros(1), 2000]),
    "collatz": Case(
        "collatz", 2, 64, lambda: [torch.arange(1, 129, dtype=torch.int32), torch.zeros(128, dtype=torch.int32)]
    ),
    "spin_lock": Case(
        "spin_lock", 2, 64, lambda: [torch.zeros(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)]
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def memory(arguments: list[Any]) -> list[bytes]:
    return [argument.numpy().tobytes() for argument in arguments if hasattr(argument, "numpy")]


def state(session: Session, arguments: list[Any]) -> tuple[Any, ...]:
    """Everything there is to see."""
    registers = [
        (name, register.values.tobytes())
        for warp in session.warps
        for group in range(len(warp.groups))
        for name, register in session.registers(warp, group).items()
    ]
    shared = [session.shared(cta).tobytes() for cta in session.ctas]
    barriers = [session.barriers(cta) for cta in session.ctas]
    return session.now, session.last, session.warps, registers, shared, barriers, memory(arguments), session.output


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_stepping_to_the_end_equals_a_launch(case: Case, scheduler: Any) -> None:
    report, expected = case.launch(scheduler=scheduler, seed=3)
    session, arguments = case.session(scheduler=scheduler, seed=3)
    executed = [instruction.pc for instruction in session]
    assert memory(arguments) == memory(expected)
    assert np.bincount(executed, minlength=len(session.code)).tolist() == [
        count * bool(at.ptx_line) for count, at in zip(report.executions, session.code, strict=True)
    ]
    assert session.over
    assert session.now == report.warp_instructions


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_running_to_the_end_equals_a_launch(case: Case, scheduler: Any) -> None:
    report, expected = case.launch(scheduler=scheduler, seed=4)
    session, arguments = case.session(scheduler=scheduler, seed=4)
    assert session.run().reason == "end"
    assert (session.now, memory(arguments)) == (report.warp_instructions, memory(expected))


@settings(deadline=None, max_examples=15)
@given(data=st.data())
@pytest.mark.parametrize("name", CASES)
def test_any_way_to_a_position_gives_the_state_of_stepping_there(name: str, data: st.DataObject) -> None:
    session, arguments = CASES[name].session()
    length = data.draw(st.integers(1, 300))
    states = [state(session, arguments)]
    for _ in range(length):
        session.step()
        states.append(state(session, arguments))
    for position in data.draw(st.lists(st.integers(0, length), min_size=1, max_size=12)):
        session.seek(position)
        assert state(session, arguments) == states[position]


@settings(deadline=None, max_examples=15)
@given(data=st.data())
@pytest.mark.parametrize("name", CASES)
def test_chosen_warps_are_part_of_the_history(name: str, data: st.DataObject) -> None:
    session, arguments = CASES[name].session()
    history = [state(session, arguments)]
    for _ in range(data.draw(st.integers(1, 25))):
        action = data.draw(st.sampled_from(["step", "warp", "warp", "back", "forward"]))
        if action == "step":
            session.step(count=data.draw(st.integers(1, 20)))
            history[session.now :] = []
        elif action == "warp":
            before = session.now
            session.step(warp=data.draw(st.integers(0, session.ctas[0].warp_count - 1)), cta=session.ctas[0].linear)
            history[before + 1 :] = []
        else:
            session.seek(data.draw(st.integers(0, len(history) - 1)))
            assert history[session.now] in (None, state(session, arguments))
            continue
        history.extend([None] * (session.now - len(history)))
        history.append(state(session, arguments))
        assert len(history) == session.now + 1


def test_many_checkpoints_are_thinned_out_and_still_lead_everywhere() -> None:
    numbers = torch.arange(1, 64 * 128 + 1, dtype=torch.int32)
    steps = torch.zeros_like(numbers)
    session = KERNELS["collatz"].session(gpu.EmulatedDevice("sm_90a"), grid=64, block=128, args=[numbers, steps])
    session.run()
    final, length = steps.clone(), session.now
    assert session.checkpoints[0] <= 64
    for position in np.random.default_rng(0).integers(0, length, 10):
        session.seek(int(position))
        assert session.now == position
    session.seek(length)
    assert torch.equal(steps, final)


def test_a_seek_past_the_end_is_refused_and_names_it() -> None:
    session, _ = CASES["reduce"].session()
    session.run()
    end = session.now
    with pytest.raises(gpu.SessionError, match=f"ends at position {end}"):
        session.seek(end + 1)


# Breakpoints


def test_breakpoints_on_lines_stop_before_every_execution_of_theirs_first_instruction_and_nowhere_else() -> None:
    session, _ = CASES["reduce"].session()
    pcs = session.code.find(opcode="bar.sync")
    executed = [instruction.pc for instruction in session]
    expected = [position for position, pc in enumerate(executed) if pc in pcs]
    assert len(expected) == 3 * 4 * 8
    session.seek(0)
    session.break_at(opcode="bar.sync")
    stops = []
    while (stop := session.run()).reason == "breakpoint":
        assert stop.at is not None
        assert stop.at.instruction.opcode == "bar.sync"
        stops.append((stop.at.cta, stop.at.warp))
    assert sorted(stops) == sorted((cta, warp) for cta in range(3) for warp in range(4) for _ in range(8))


def test_run_to_a_source_line_stops_the_named_warp_before_it() -> None:
    session, _ = CASES["reduce"].session()
    for _ in range(3):
        stop = session.run_to(line=11, warp=1)
        assert (stop.reason, stop.at.warp, stop.at.cta) == ("breakpoint", 1, 0)
        assert stop.at.instruction.source == ("session.cu", 11)


def test_run_to_a_ptx_line() -> None:
    session, _ = CASES["collatz"].session()
    line = session.code[session.code.find(opcode="st.global")[0]].ptx_line
    assert session.run_to(ptx_line=line).at.instruction.ptx_line == line


def test_a_watch_on_a_tensor_stops_before_the_store_that_changes_it() -> None:
    session, (_, steps) = CASES["collatz"].session()
    session.watch(steps[70:71])
    stop = session.run()
    assert (stop.reason, stop.at.cta, stop.at.warp) == ("breakpoint", 1, 0)
    assert stop.at.instruction.opcode.startswith("st.global")
    assert steps[70] == 0
    session.step(warp=stop.at.warp, cta=stop.at.cta)
    assert steps[70] == 102
    assert session.run().reason == "end"


def test_a_watch_on_shared_memory_distinguishes_reads_from_writes() -> None:
    session, _ = CASES["reduce"].session()
    offset = 0x400 + 4 * 5  # partial[5]
    session.watch(offset, access="write")
    stop = session.run()
    assert stop.at.instruction.opcode.startswith("st.shared")
    assert stop.at.instruction.source == ("session.cu", 7)
    session.unbreak(stop.breakpoint)
    session.watch(offset, access="read")
    assert session.run().at.instruction.opcode.startswith("ld.shared")


def test_the_end_of_a_barriers_phase_is_a_place_to_stop() -> None:
    session, _ = CASES["reduce"].session()
    session.break_phase(barrier=0)
    for phase in range(1, 4):
        stop = session.run()
        assert stop.reason == "breakpoint"
        assert session.barriers()[0].phase == phase
        assert not any(warp.blocked for warp in session.warps)


# What is seen


def test_a_warp_at_a_barrier_says_so_and_since_when() -> None:
    session, _ = CASES["reduce"].session()
    session.run_to(opcode="bar.sync", warp=2)
    first, third = session.warp(0), session.warp(2)
    assert first.blocked
    assert first.groups[0].blocked == "waits at barrier 0 (64 of 128 threads have arrived)"
    assert first.groups[0].wait == "barrier"
    assert 0 < first.groups[0].since < session.now
    assert not third.blocked
    assert session.barriers()[0].waiting == {0: 0xFFFFFFFF, 1: 0xFFFFFFFF}


def test_diverged_lanes_show_as_groups_with_their_masks() -> None:
    session, _ = CASES["collatz"].session()
    seen = 0
    for _ in range(400):
        session.step(warp=0)
        groups = session.warp(0).groups
        masks = [group.mask for group in groups]
        assert sum(masks) == int(np.bitwise_or.reduce(masks)) == session.warp(0).live
        seen = max(seen, len(groups))
    assert seen >= 2


def test_registers_have_the_values_that_the_source_says() -> None:
    session, (start, _) = CASES["collatz"].session()
    load = session.code.find(opcode="ld.global")[0]
    session.run_to(opcode="ld.global", warp=1)
    name = session.code[load].text.split()[1].rstrip(",")
    assert name not in session.registers(1)
    session.step(warp=1)
    register = session.registers(1)[name]
    assert register.values.tolist() == start[32:64].tolist()


def test_shared_memory_is_seen_as_bytes() -> None:
    session, (a, *_) = CASES["reduce"].session()
    session.break_phase(barrier=0)
    session.run()
    partial = session.shared()[0x400 : 0x400 + 512].view(np.float32)
    sums = a[:2000].numpy().astype(np.float64)
    for thread in range(128):
        np.testing.assert_allclose(partial[thread], sums[thread : 2000 : 3 * 128].sum(), rtol=1e-5, atol=1e-6)


def test_step_line_moves_a_warp_to_another_line() -> None:
    session, _ = CASES["reduce"].session()
    lines = []
    for _ in range(6):
        session.step_line(0)
        lines.append(session.warp(0).groups[0].at.source[1])
    assert all(a != b for a, b in pairwise(lines))


# What goes wrong


def test_a_fault_stops_the_session_where_it_happened_and_can_be_gone_back_from() -> None:
    kernel = KERNELS["clock_and_out_of_bounds"]
    out = torch.zeros(32, dtype=torch.int64)
    session = kernel.session(gpu.EmulatedDevice("sm_90a"), grid=1, block=32, args=[out, 1])
    with pytest.raises(gpu.KernelError, match="past the end") as caught:
        session.run()
    assert session.fault == caught.value.fault
    assert session.fault.kind == "out_of_bounds"
    assert session.warp(0).groups[0].at.ptx_line == session.fault.ptx_line
    with pytest.raises(gpu.KernelError):
        session.step()
    session.back(2)
    assert session.fault is None
    session.step()


def test_clocks_repeat_when_a_session_goes_back() -> None:
    out = torch.zeros(32, dtype=torch.int64)
    kernel = KERNELS["clock_and_out_of_bounds"]
    session = kernel.session(gpu.EmulatedDevice("sm_90a"), grid=1, block=32, args=[out, 0])
    session.run()
    first = out.clone()
    session.seek(0)
    assert not out.any()
    session.run()
    assert torch.equal(out, first)


def test_a_livelock_ends_a_session_at_the_devices_limit() -> None:
    lock, total = torch.ones(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    device = gpu.EmulatedDevice("sm_90a", max_instructions=10_000)
    session = KERNELS["spin_lock"].session(device, grid=1, block=32, args=[lock, total])
    with pytest.raises(gpu.KernelError, match="more than its limit of 10,000"):
        session.run()


def test_a_session_that_goes_round_in_circles_says_so_and_goes_on_from_before() -> None:
    lock, total = torch.ones(1, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    device = gpu.EmulatedDevice("sm_90a", max_instructions=100_000_000)
    session = KERNELS["spin_lock"].session(device, grid=1, block=32, args=[lock, total])
    with pytest.raises(gpu.KernelError, match="never ends: it goes round in circles") as caught:
        session.run()
    assert "its limit of" not in str(caught.value)
    assert session.now < 10_000_000
    session.seek(50)
    assert session.step(count=10).position == 60


def test_lines_that_are_named_as_near_are_the_nearest_of_all_files(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"far.cuh": [1, 2, 3], "near.cu": [96, 97, 98, 140], "mid.cuh": [110]}
    session, _ = CASES["reduce"].session()
    monkeypatch.setattr(type(session.code), "source_lines", files)
    with pytest.raises(gpu.SessionError, match=r"near it are near\.cu:96, near\.cu:97, near\.cu:98, mid\.cuh:110$"):
        session.run_to(line=100)


def test_breakpoints_are_counted_without_those_of_moves_and_keep_their_numbers() -> None:
    session, _ = CASES["reduce"].session()
    assert session.run_to(opcode="bar").breakpoint is None
    session.next_event()
    session.back(warp=0)
    numbers = [session.break_at(opcode="bar"), session.break_at(opcode="st")]
    assert numbers == [1, 2]
    with pytest.raises(gpu.SessionError, match="no breakpoint -1; there are 1, 2"):
        session.unbreak(-1)
    session.unbreak(1)
    session.renumber(session.break_at(opcode="bar"), 1)
    assert [each.number for each in session.breakpoints] == [1, 2]
    assert {session.run().breakpoint for _ in range(12)} == {1, 2}
    assert session.break_at(opcode="ld") == 3
    with pytest.raises(gpu.SessionError, match="breakpoint 3 cannot have the number 2"):
        session.renumber(3, 2)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s: s.run_to(line=999), r"near it are .*session\.cu:13"),
        (lambda s: s.run_to(ptx_line=1), "no instruction on PTX line 1 matches; near it are"),
        (lambda s: s.run_to(opcode="wgmma"), "no instruction starts with 'wgmma'; the kernel uses .*bar"),
        (lambda s: s.run_to(line=9, file="other.cu"), "no source file other.cu"),
        (lambda s: s.run_to(), "give a line"),
        (lambda s: s.step(warp=7), "no warp 7: CTAs have warps 0 to 3"),
        (lambda s: s.warp(0, cta=2), "CTA 2 has not started or has finished; running: 0"),
        (lambda s: s.warp(0, cta=(5, 0, 0)), r"no CTA \(5, 0, 0\): the grid is \(3, 1, 1\)"),
        (lambda s: s.step(count=0), "count must be 1 or more"),
        (lambda s: s.seek(-1), "0 or more"),
        (lambda s: s.unbreak(77), "no breakpoint 77"),
        (lambda s: s.renumber(1, 2), "breakpoint 1 cannot have the number 2"),
        (lambda s: s.break_phase(barrier=16), "0 to 15"),
        (lambda s: s.watch(10**6), "shared memory ends"),
        (lambda s: s.watch(torch.zeros(1)), "not the launch's"),
        (lambda s: s.watch(0, nbytes=0), "nbytes: expected an integer, 1 or more; got 0"),
        (lambda s: s.watch(0, nbytes=-4), "nbytes: expected an integer, 1 or more; got -4"),
        (lambda s: s.watch(0, nbytes=2.5), "nbytes: expected an integer, 1 or more; got 2.5"),
        (lambda s: s.watch(torch.zeros(1), nbytes=-1), "nbytes: expected an integer, 1 or more; got -1"),
        (lambda s: s.watch(-8), "memory: expected a tensor or an offset in shared memory, 0 or more; got -8"),
        (lambda s: s.watch("smem"), "memory: expected a tensor or an offset in shared memory, .*; got 'smem'"),
        (lambda s: s.break_code([0, len(s.code)]), r"pcs: expected an integer, 0 to \d+; got \d+"),
        (lambda s: s.break_code([-1]), r"pcs: expected an integer, 0 to \d+; got -1"),
    ],
)
def test_what_is_not_there_is_refused_by_name(ask: Callable[[Session], Any], message: str) -> None:
    session, _ = CASES["reduce"].session()
    with pytest.raises(gpu.SessionError, match=message):
        ask(session)
    assert session.now == 0 and session.breakpoints == ()


def test_a_launch_that_cannot_run_is_refused_when_the_session_is_made() -> None:
    with pytest.raises(gpu.LaunchError):
        KERNELS["reduce"].session(gpu.EmulatedDevice("sm_90a"), grid=1, block=2048, args=[floats(1), floats(1), 1])


def test_a_session_that_is_over_says_how_to_look_at_it() -> None:
    session, _ = CASES["reduce"].session()
    session.run()
    with pytest.raises(gpu.SessionError, match=r"go back\(\) or seek\(\)"):
        session.warp(0)


def test_a_session_keeps_its_arguments_alive() -> None:
    session = KERNELS["collatz"].session(
        gpu.EmulatedDevice("sm_90a"), grid=2, block=64, args=CASES["collatz"].arguments()
    )
    overwritten = [torch.full((128,), -1, dtype=torch.int32) for _ in range(64)]
    session.run_to(opcode="ld.global", warp=1)
    session.step(warp=1)
    name = session.last.instruction.text.split()[1].rstrip(",")
    assert session.registers(1)[name].values.tolist() == list(range(33, 65))
    del overwritten


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_run_in_slices_stops_where_a_run_does(case: Case, scheduler: Any) -> None:
    whole, _ = case.session(scheduler=scheduler, seed=4)
    sliced, _ = case.session(scheduler=scheduler, seed=4)
    for session in (whole, sliced):
        session.break_at(opcode="bra", warp=1, cta=0)
    for _ in range(5):
        start, expected = whole.now, whole.run()
        while (stop := sliced.run(limit=7)).reason == "limit":
            assert sliced.now == (start := start + 7)
        assert (stop.reason, stop.position, stop.at) == (expected.reason, expected.position, expected.at)
        assert sliced.moment == whole.moment


def test_a_warp_that_waits_lets_others_run_up_to_a_limit() -> None:
    session, _ = CASES["reduce"].session()
    session.run_to(opcode="bar.sync", warp=0)
    before = session.now
    stop = session.step(warp=0, limit=3)  # no other warp has reached the barrier
    assert (stop.reason, session.now) == ("limit", before + 3)
    assert session.step(warp=0).reason == "reached"
    assert session.now > before + 3


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_a_moment_is_returned_to_exactly(case: Case, scheduler: Any) -> None:
    session, arguments = case.session(scheduler=scheduler, seed=5)
    session.break_at(opcode="bra")
    seen = []
    for _ in range(6):
        session.run()
        seen.append((session.moment, session.next, state(session, arguments)))
    session.step(warp=0)
    for moment, following, expected in reversed(seen):
        session.return_to(moment)
        assert (session.moment, session.next) == (moment, following)
        assert state(session, arguments) == expected


def test_listeners_hear_of_every_move_until_they_leave() -> None:
    session, _ = CASES["reduce"].session()
    heard: list[int] = []
    leave = session.on_move(lambda: heard.append(session.now))
    session.step(count=3)
    session.back()
    with session.quiet():
        session.step(count=5)
        session.seek(2)
    leave()
    session.step()
    assert heard == [3, 2]


def test_a_session_is_freed_with_its_last_reference(case: Case) -> None:
    """Immediately, and not when cycles are collected: it holds copies of the launch's memory."""
    session, _ = case.session()
    session.step()
    session.findings, session.breakpoints  # noqa: B018
    gone = weakref.ref(session)
    del session
    assert gone() is None
