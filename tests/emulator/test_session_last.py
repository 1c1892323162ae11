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
