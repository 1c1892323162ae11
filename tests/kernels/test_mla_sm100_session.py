"""All that a session shows of our SM100 MLA decode, and every way through it, held against its log and its data."""

from __future__ import annotations

import ctypes
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.emulator.session import Session
from sglab.events.log import MBARRIER, NAMED
from sglab.events.tables import COPY_KINDS
from sglab.kernels.mla import mla_decode_sm100

HEADS, PAGE, TOKENS = 128, 128, 300
ROLES = {"softmax", "epilogue", "mma", "load", "page table"}


@pytest.fixture(scope="module")
def session() -> Session:
    generator = torch.Generator().manual_seed(5)
    pages = -(-TOKENS // PAGE)
    q, rope = (torch.randn((1, HEADS, size), generator=generator).half() for size in (512, 64))
    cache = torch.randn((pages, PAGE, 576), generator=generator).half()
    table, lengths = torch.arange(pages, dtype=torch.int32)[None], torch.tensor([TOKENS], dtype=torch.int32)
    device = gpu.EmulatedDevice("sm_100a", sanitize=True)
    call = lambda: mla_decode_sm100(device, q, rope, cache, lengths, table, sm_scale=192**-0.5)  # noqa: E731
    return gpu.capture(call).main.session()


@pytest.fixture(autouse=True)
def _start(session: Session) -> None:
    session.seek(0)


def positions(session: Session, count: int) -> list[int]:
    return np.linspace(1, len(session.log) - 1, count).astype(int).tolist()


def global_box(info: Any, coordinates: Any) -> Any:
    """The values that TMA reads for a box, dimension 0 last; zero outside the tensor."""
    dims, box = info.dims, info.box
    bytes_of = [2, *info.strides]
    first = np.ctypeslib.as_array((ctypes.c_uint8 * 2).from_address(info.address)).view(np.float16)
    whole = np.lib.stride_tricks.as_strided(first, dims[::-1], bytes_of[::-1])
    out = np.zeros(box[::-1], np.float16)
    inside = [range(start, min(start + size, dim)) for start, size, dim in zip(coordinates, box, dims, strict=False)]
    values = whole[np.ix_(*[list(span) for span in inside[::-1]])]
    out[tuple(slice(0, len(span)) for span in inside[::-1])] = values
    return out.reshape(-1, box[0])


def test_every_warp_has_groups_lines_roles_and_a_reason_to_wait(session: Session) -> None:
    assert set(session.roles.names) - {"idle"} == ROLES
    reasons = set()
    for position in positions(session, 25):
        session.seek(position)
        for warp in session.warps:
            masks = [group.mask for group in warp.groups]
            assert reduce(int.__or__, masks, 0) == warp.live == sum(masks)
            assert session.roles.of(warp.cta.linear, warp.index).name in ROLES | {"idle"}
            for group in warp.groups:
                assert group.at.source is not None and group.at.source[0].endswith((".cu", ".cuh", ".h", ".hpp"))
                assert (group.blocked == "") == (group.wait == "ready")
                reasons.add(group.wait)
    assert {"ready", "mbarrier"} <= reasons


def test_registers_change_with_every_instruction_that_writes_them(session: Session) -> None:
    session.run_to(opcode="ex2", warp=0)
    before = session.registers(0)
    text = session.next.instruction.text if session.next else ""
    name, source = (word.strip(" ,;") for word in text.split()[-2:])
    session.step(warp=0)
    after = session.registers(0)[name].values.view(np.float32)
    np.testing.assert_allclose(after, np.exp2(before[source].values.view(np.float32)), rtol=2e-6)


def test_mbarriers_are_those_of_the_log_with_their_waiters(session: Session) -> None:
    states = session.log.barrier_states
    chosen = states.kind == MBARRIER
    for position in positions(session, 25):
        session.seek(position)
        for cta in session.ctas:
            waiting = {
                (warp.cta.linear, warp.index, group.key)
                for warp in session.warps
                for group in warp.groups
                if group.wait == "mbarrier"
            }
            for barrier in session.mbarriers(cta):
                key = cta.rank << 24 | barrier.offset
                found = {(where, warp) for where, warp, _ in barrier.waiting}
                assert found == {(where, warp) for where, warp, at in waiting if at == key}
                rows = np.flatnonzero(chosen & (states.object == key) & (states.position < position))
                if len(rows) and states.position[rows[-1]] < position - 1:
                    row = rows[-1]
                    now = (barrier.pending, barrier.expected, barrier.tx_count, barrier.phase)
                    assert now == (states.pending[row], states.expected[row], states.tx_count[row], states.phase[row])


def test_named_barriers_say_who_has_arrived(session: Session) -> None:
    rows = np.flatnonzero(session.log.waits.kind == 2)
    assert len(rows)
    row = int(rows[0])
    event = int(session.log.waits.event[row])
    session.seek(int(session.log.waits.since[row]) + 1)
    cta, warp = int(session.log.cta[event]), int(session.log.warp[event])
    [barrier] = [one for one in session.barriers(cta) if one.number == session.log.waits.object[row]]
    assert warp in barrier.waiting and 0 < barrier.arrived < barrier.expected
    assert "threads have arrived" in next(group.blocked for group in session.warp(warp, cta).groups if group.blocked)


def test_what_tma_loads_is_the_caches_own_numbers(session: Session) -> None:
    copies, log = session.log.copies, session.log
    loads = np.flatnonzero((copies.kind == COPY_KINDS.index("tensor load")) & (copies.done >= 0))
    assert len(loads) > 30
    for row in loads[:: len(loads) // 12].tolist():
        info = log.maps[copies.map[row]]
        session.seek(int(copies.done[row]) + 1)
        cta = int(log.cta[copies.event[row]]) & ~1 | int(copies.shared[row]) >> 24
        tile = session.tile(info, shared=int(copies.shared[row]), cta=cta)
        assert np.array_equal(tile.values.reshape(-1, info.box[0]), global_box(info, copies.coordinates[row].tolist()))
        written = session.shared_written(cta)
        assert written[tile.offsets].all() and written[tile.offsets + 1].all()


def test_written_shared_memory_grows_and_is_taken_back(session: Session) -> None:
    seen = {}
    for position in [0, *positions(session, 12)]:
        session.seek(position)
        for cta in session.ctas:
            written = session.shared_written(cta)
            assert not session.shared(cta)[~written].any()  # never written: it is as it was
            seen[position, cta.linear] = written
    assert not seen[0, 0].any()
    for (position, cta), written in reversed(seen.items()):
        session.seek(position)
        assert np.array_equal(session.shared_written(cta), written)
    of_one = [one for (_, cta), one in seen.items() if cta == 0]
    assert all((later >= earlier).all() for earlier, later in pairwise(of_one))
    session.seek(positions(session, 12)[-2])
    for barrier in session.mbarriers(0):
        assert session.shared_written(0)[barrier.offset : barrier.offset + 8].all()


def test_tensor_memory_has_owners_what_is_written_and_by_whom(session: Session) -> None:
    mmas, log = session.log.mmas, session.log
    row = len(mmas.event) // 2
    session.seek(int(mmas.done[row]) + 1)
    event = int(mmas.event[row])
    memory = session.tensor_memory(int(log.cta[event]))
    assert memory is not None
    column = int(mmas.d[row]) & 0xFFFF
    assert memory.owner[column // 32] > 0 and memory.written[column].any()
    together = (mmas.done == mmas.done[row]) & (mmas.d & 0xFFFF == column)  # carried out up to one commit
    assert memory.writer_position[column, 0] == mmas.event[together].max()
    assert memory.writer_pc[column, 0] == log.pc[memory.writer_position[column, 0]]
    assert session.roles.of(int(memory.writer_cta[column, 0]), int(memory.writer_warp[column, 0])).name == "mma"
    session.seek(0)
    assert session.tensor_memory(0) is None


def test_operations_in_flight_are_those_that_the_log_has_open(session: Session) -> None:
    copies = session.log.copies
    signalling = np.flatnonzero(copies.kind == COPY_KINDS.index("tensor load"))
    for position in positions(session, 15):
        session.seek(position)
        open_now = signalling[(copies.event[signalling] < position) & (copies.done[signalling] >= position)]
        loads = [one for one in session.in_flight(0) if one.kind == "load box"]
        late = [row for row in open_now if copies.done[row] == position]
        assert len(open_now) - len(late) <= len(loads) <= len(open_now)
        assert {one.since for one in loads} <= set(copies.event[open_now].tolist())
        assert all(session.roles.of(one.cta, one.warp).name == "load" for one in loads)


def test_the_next_event_of_a_warp_a_role_and_a_barrier_and_back(session: Session) -> None:
    log = session.log
    for role in ("softmax", "mma", "load"):
        session.seek(0)
        visited = []
        for _ in range(3):
            stop = session.next_event(role=role)
            assert stop.at is not None and stop.at.instruction.event
            assert session.roles.of(stop.at.cta, stop.at.warp).name == role
            visited.append(session.now)
        session.previous_event(role=role)
        assert session.now == visited[-2]
    waits = np.flatnonzero((log.warp == 0) & (log.cta == 0))
    session.seek(int(waits[len(waits) // 2]))
    here = session.now
    assert (session.next_event(warp=0).at or session.last).warp == 0  # type: ignore[union-attr]
    assert session.now >= here
    full = next(one for one in session.roles.barriers if one.kind == MBARRIER and one.name == "load→mma full[0]")
    session.seek(0)
    stop = session.next_event(mbarrier=full.object & 0xFFFFFF, cta=full.cta)
    assert stop.at is not None and session.now > 0
    number = next(one.object for one in session.roles.barriers if one.kind == NAMED)
    session.seek(0)
    assert "bar" in session.next_event(barrier=number).at.instruction.opcode  # type: ignore[union-attr]


def test_breakpoints_of_every_kind_stop_forwards_and_backwards(session: Session) -> None:
    log = session.log
    row = len(log.mmas.event) // 2
    event = int(log.mmas.event[row])
    at = session.code[int(log.pc[event])]
    assert at.source is not None
    full = next(one for one in session.roles.barriers if one.kind == MBARRIER and one.name.startswith("mma→softmax"))
    copy = int(log.copies.shared[np.flatnonzero(log.copies.kind == COPY_KINDS.index("tensor load"))[0]])
    made = {
        "source line": lambda: session.break_at(
            line=at.chain[-1].line, file=at.chain[-1].file, warp=int(log.warp[event])
        ),
        "PTX line": lambda: session.break_at(ptx_line=at.ptx_line),
        "instruction kind": lambda: session.break_at(opcode="tcgen05.mma"),
        "phase": lambda: session.break_phase(mbarrier=full.object & 0xFFFFFF, cta=full.cta),
        "address": lambda: session.watch(copy & 0xFFFFFF, 16, cta=copy >> 24),
        "tensor memory": lambda: session.watch_tensor_memory(int(log.mmas.d[row]) & 0xFFFF),
    }
    for what, make in made.items():
        session.seek(1000)
        number = make()
        try:
            stops = []
            for _ in range(2):
                stop = session.run()
                if stop.reason == "breakpoint":
                    assert stop.breakpoint == number, what
                    stops.append((session.now, session.digest))
            assert stops, what
            if len(stops) == 2:
                session.run_back()
                assert (session.now, session.digest) == stops[0], what
        finally:
            session.unbreak(number)


def test_a_step_is_one_instruction_or_one_source_line_and_is_undone(session: Session) -> None:
    session.seek(len(session.log) // 2)
    before = session.digest
    stop = session.step()
    assert stop.position == session.now == len(session.log) // 2 + 1
    session.back()
    assert session.digest == before
    warp = next(one for one in session.warps if not one.blocked and not one.exited)
    line = warp.groups[0].at.source
    session.step_line(warp)
    assert session.warp(warp.index, warp.cta).groups[0].at.source != line
    session.back_line(warp.index, warp.cta)
    assert session.warp(warp.index, warp.cta).groups[0].at.source == line


def test_it_ends_right_and_clean_however_it_was_walked(session: Session) -> None:
    session.run()
    assert session.over
    assert not session.findings
