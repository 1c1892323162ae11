"""Sessions over kernels with TMA, mbarriers, wgmma and tcgen05: every moment is the same however it was reached."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.emulator.session import Session
from tests.support.launches.pipelines import PIPELINES, Arguments

STAGE = 0x400  # where static shared memory starts: the first stage of A


def opened(name: str, k: int = 256, **device: Any) -> tuple[Session, Arguments]:
    pipeline = PIPELINES[name]
    arguments = pipeline.arguments(k)
    return pipeline.kernel.session(gpu.EmulatedDevice(pipeline.arch, **device), **arguments.launch()), arguments


def full_barriers(session: Session) -> list[int]:
    """Offsets of the mbarriers that count loaded bytes."""
    return [one.object & 0xFFFFFF for one in session.roles.barriers if one.cta == 0 and one.name.startswith("load→mma")]


@pytest.fixture(params=PIPELINES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("scheduler", ["fair", "random", "adversarial", "in_order"])
def test_every_position_has_the_same_state_forwards_and_backwards(name: str, scheduler: Any) -> None:
    session, arguments = opened(name, k=128, scheduler=scheduler, seed=7)
    digests = [session.digest]
    for _ in session:
        digests.append(session.digest)
    assert len(set(digests)) == len(digests) == session.now + 1
    assert arguments.right()
    for position in [*range(session.now, 0, -1)][:: max(1, session.now // 400)]:
        session.seek(position)
        assert session.digest == digests[position]
    for position in np.random.default_rng(0).integers(0, len(digests), 50).tolist():
        session.seek(position)
        assert session.digest == digests[position]
    session.seek(len(digests) - 1)
    assert arguments.right()


def test_moments_at_any_distance_are_reached_past_checkpoints_taken_on_the_way(name: str) -> None:
    session, arguments = opened(name, k=64 * 24)
    digests = {0: session.digest}
    while not session.over:
        session.step(count=97)
        digests[session.now] = session.digest
    assert session.checkpoints[0] > 2
    for position in np.random.default_rng(1).permutation(list(digests)).tolist():
        session.seek(position)
        assert session.digest == digests[position]
    session.run()
    assert arguments.right()


def test_tensor_memory_that_is_being_looked_at_survives_going_back() -> None:
    session, _ = opened("tcgen05")
    session.run_to(opcode="tcgen05.ld", warp=2)
    memory = session.tensor_memory()
    before = memory.cells.copy()
    session.seek(0)
    assert session.tensor_memory() is None
    session.run_to(opcode="tcgen05.ld", warp=2)
    assert np.array_equal(session.tensor_memory().cells, before)
    assert np.array_equal(memory.cells, before)  # the view shows the session's memory, not a copy


# Breakpoints


def stops(session: Session, limit: int = 100) -> Iterator[Any]:
    for _ in range(limit):
        stop = session.run()
        if stop.reason != "breakpoint":
            return
        yield stop


def test_every_phase_of_an_mbarrier_is_a_place_to_stop_forwards_and_backwards(name: str) -> None:
    session, _ = opened(name, k=64 * 6)
    full = full_barriers(session)[0]
    log = session.log
    ends = log.phases.position[(log.phases.kind == 1) & (log.phases.object == full)]
    assert len(ends) == 3
    session.break_phase(mbarrier=full)
    forwards = []
    for stop in stops(session):
        assert {one.offset: one.phase for one in session.mbarriers()}[full] == (len(forwards) + 1) % 2
        forwards.append((session.moment, stop.position))
    # It ends while a waiting instruction carries the copy out, or between two instructions.
    assert [position - end in (0, 1) for (_, position), end in zip(forwards, ends.tolist(), strict=True)] == [True] * 3
    backwards = []
    while session.run_back().reason == "breakpoint":
        backwards.append((session.moment, session.now))
    assert backwards == forwards[::-1]
    assert session.now == 0


def test_a_watch_on_shared_memory_stops_after_the_tma_copy_that_fills_it(name: str) -> None:
    session, arguments = opened(name)
    session.watch(STAGE, nbytes=16)
    stop = session.run()
    assert stop.reason == "breakpoint"
    row = arguments.a[0, :8].numpy()  # row 0 of the first box is not moved by the swizzle
    assert session.shared()[STAGE : STAGE + 16].tobytes() == row.tobytes()
    copies = session.log.copies
    first = copies.done[(copies.shared == STAGE)].min()
    assert stop.position - first in (0, 1)


@pytest.mark.parametrize("cta", [0, 1])
def test_a_watch_on_tensor_memory_stops_after_the_multiplication_that_changes_it(cta: int) -> None:
    session, _ = opened("tcgen05 pair")
    session.watch_tensor_memory(3, cta=cta)
    ends = sorted(set(session.log.mmas.done.tolist()))
    visited = [(session.moment, stop.position) for stop in stops(session)]
    assert {min(ends, key=lambda end: abs(position - end)) for _, position in visited} == set(ends)
    assert all(min(abs(position - end) for end in ends) <= 1 for _, position in visited)
    back = []
    while session.run_back().reason == "breakpoint":
        back.append(session.moment)
    assert back == [moment for moment, _ in visited][::-1]


def test_an_accumulator_in_tensor_memory_says_who_wrote_it_last() -> None:
    session, arguments = opened("tcgen05")
    session.run_to(opcode="tcgen05.ld", warp=2)
    memory = session.tensor_memory()
    assert memory.owner.tolist() == [1, 1] + [0] * 14
    assert memory.written[:64].all()
    assert not memory.written[64:].any()
    expected = (arguments.a.float() @ arguments.b.float().T).numpy()
    assert np.array_equal(memory.cells[:64].view(np.float32).T, expected)
    mmas = session.log.mmas
    assert (memory.writer_position[:64] == mmas.event[-1]).all()
    assert (memory.writer_warp[:64] == 5).all()
    assert session.code[int(memory.writer_pc[0, 0])].opcode.startswith("tcgen05.mma")
    assert (memory.writer_position[64:] == -1).all()


def test_a_pair_of_ctas_writes_both_tensor_memories() -> None:
    session, arguments = opened("tcgen05 pair")
    session.run_to(opcode="tcgen05.ld", warp=0, cta=1)
    expected = (arguments.a.float() @ arguments.b.float().T).numpy()
    for cta in (0, 1):
        memory = session.tensor_memory(cta)
        rows = slice(128 * cta, 128 * (cta + 1))
        assert np.array_equal(memory.cells[:64].view(np.float32).T, expected[rows])
        assert (memory.writer_cta[:64] == 0).all()  # the leader issues


def test_operations_in_flight_say_what_they_move_and_since_when() -> None:
    session, _ = opened("tcgen05")
    session.run_to(opcode="mbarrier.try_wait", warp=5)
    session.seek(session.now)
    log = session.log
    for flying in session.in_flight():
        assert flying.at.pc == log.pc[flying.since]
        assert (flying.cta, flying.warp) == (log.cta[flying.since], log.warp[flying.since])
    boxes = [one for one in session.in_flight() if one.kind == "load box"]
    assert {one.nbytes for one in boxes} <= {16384, 8192}


# From event to event


def test_events_of_a_kind_are_visited_in_the_order_of_the_log_and_back(name: str) -> None:
    session, _ = opened(name)
    log = session.log
    copies = sorted(set(log.copies.event.tolist()))
    visited = []
    while (stop := session.next_event(kind="copy")).reason == "breakpoint":
        visited.append(stop.position)
        assert stop.at.instruction.opcode.startswith("cp.async.bulk.tensor")
    assert visited == copies
    back = []
    while session.previous_event(kind="copy").reason == "breakpoint":
        back.append(session.now)
    assert back == copies[::-1]


def test_events_of_a_role_are_its_warps(name: str) -> None:
    session, _ = opened(name)
    load = session.roles.warps("load")
    seen = set()
    while (stop := session.next_event(role="load", kind="wait")).reason == "breakpoint":
        seen.add((stop.at.cta, stop.at.warp))
    assert seen == set(load)


def test_events_of_an_mbarrier_are_the_instructions_on_it_and_the_ends_of_its_phases() -> None:
    session, _ = opened("tcgen05")
    full = full_barriers(session)[1]
    log = session.log
    expected = set(log.barriers.event[(log.barriers.kind == 1) & (log.barriers.object == full)].tolist())
    visited, ends = set(), 0
    while (stop := session.next_event(mbarrier=full)).reason == "breakpoint":
        if stop.at.instruction.opcode.startswith("mbarrier."):
            visited.add(stop.position)
        ends += 1
    assert expected <= visited
    assert ends >= len(expected) + len(log.phases.event[(log.phases.kind == 1) & (log.phases.object == full)]) - 1


def test_events_on_a_named_barrier() -> None:
    session, _ = opened("wgmma")
    visited = []
    while (stop := session.next_event(barrier=0, kind="wait")).reason == "breakpoint":
        visited.append(stop.at.warp)
    assert sorted(visited) == [0, 1, 2, 3, 4]


def test_going_back_by_instructions_of_one_warp_undoes_its_steps(name: str) -> None:
    session, _ = opened(name)
    session.next_event(kind="mma")
    warp, cta = session.next.warp, session.next.cta
    pcs = []
    for _ in range(12):
        pcs.append(session.warp(warp, cta).groups[0].at.pc)
        session.back(warp=warp, cta=cta)
    seen = [session.warp(warp, cta).groups[0].at.pc]
    session.step(warp=warp, cta=cta)
    while len(seen) < 12:
        seen.append(session.warp(warp, cta).groups[0].at.pc)
        session.step(warp=warp, cta=cta)
    assert seen[1:] == pcs[:0:-1]


def test_lines_are_walked_back_the_way_they_were_walked(name: str) -> None:
    session, _ = opened(name)
    warp = 0  # its lanes stay together
    session.step_line(warp)

    def line() -> Any:
        return session.warp(warp).groups[0].at.source

    walked = [line()]
    for _ in range(10):
        session.step_line(warp)
        walked.append(line())
    back = [line()]
    for _ in range(9):
        session.back_line(warp)
        back.append(line())
    assert back == walked[:0:-1]


def test_the_log_of_a_session_is_that_of_a_recording_and_leaves_the_session_alone(name: str) -> None:
    pipeline = PIPELINES[name]
    recorded = pipeline.kernel.record(gpu.EmulatedDevice(pipeline.arch), **pipeline.arguments().launch())
    session, arguments = opened(name)
    session.step(count=700)
    digest, moment, out = session.digest, session.moment, arguments.out.clone()
    log = session.log
    assert (session.digest, session.moment) == (digest, moment)
    assert torch.equal(arguments.out, out)
    for column in ("cta", "warp", "pc", "mask"):
        assert np.array_equal(getattr(log, column), getattr(recorded, column))
    for table in ("barriers", "waits", "phases", "mmas", "tmem"):
        for column, values in vars(getattr(log, table)).items():
            assert np.array_equal(values, getattr(getattr(recorded, table), column)), (table, column)
    session.run()
    assert arguments.right()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s: s.next_event(role="chef"), "no warp has the role 'chef'; there are epilogue, load, mma"),
        (lambda s: s.next_event(kind="wgmma"), "no instruction of the kind 'wgmma'; it has .*copy.*mma"),
        (lambda s: s.next_event(warp=1, role="mma"), "warp= or role="),
        (lambda s: s.next_event(barrier=1, mbarrier=0x400), "barrier= or mbarrier="),
        (lambda s: s.break_phase(), "give one of"),
        (lambda s: s.watch_tensor_memory(511, 2), "columns 0 to 511"),
        (lambda s: s.break_phase(mbarrier=10**7), "shared memory ends"),
    ],
)
def test_what_is_not_there_is_refused_by_name(ask: Any, message: str) -> None:
    session, _ = opened("tcgen05")
    with pytest.raises(gpu.SessionError, match=message):
        ask(session)
    assert session.now == 0
