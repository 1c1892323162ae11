"""`session.last` is the instruction that ran, not one that had to wait and is tried again."""

import pytest

pytest.importorskip("torch")

from tests.support.launches.memory_sessions import mla_sm100


@pytest.mark.parametrize("opcode", ["mbarrier.try_wait", "bar.", "tcgen05.mma"])
def test_after_a_stop_at_a_breakpoint_it_is_what_the_log_has_there(opcode: str) -> None:
    session = mla_sm100(128)
    log = session.log
    session.break_at(opcode=opcode)
    stops = 0
    while session.run().reason != "end" and stops < 100:
        if (event := session.now - 1) >= 0:
            stops += 1
            last = session.last
            assert (last.cta, last.warp, last.instruction.pc) == (log.cta[event], log.warp[event], log.pc[event])
    assert stops > 10


def test_it_goes_back_with_the_session() -> None:
    session = mla_sm100(128)
    log = session.log
    for position in (900, 300, 650, 1):
        session.seek(position)
        assert session.last.instruction.pc == log.pc[position - 1]
    session.seek(0)
    assert session.last is None


def test_where_it_stops_is_one_short_line_in_a_notebook() -> None:
    session = mla_sm100(128)
    stop = session.run_to(opcode="tcgen05.ld")
    assert "\n" not in repr(stop) and len(repr(stop)) < 200
    assert f"step {session.now:,}" in repr(stop) and f"warp {stop.at.warp} of CTA {stop.at.cta}" in repr(stop)
    assert "/" not in str(stop.at).split(": ")[0], "the file's name is enough"
    assert "next: " in repr(stop) and stop.at.instruction.opcode in repr(stop)
    assert "last: " in repr(session.step()) and len(repr(session.last)) < 200
    assert repr(session.run()).startswith(f"<Stop at step {session.now:,} (end)")
