"""Widgets of one session: they follow it through a run that begins again, and none minds that another is closed."""

from __future__ import annotations

import pytest
import torch

import sglab
from sglab.emulator.session import Session
from sglab.gpu import SessionError
from sglab.widgets import Barriers, KernelDebugger, NanSpread, SharedMemory, WarpRoles
from tests.support.launches.shared_sum import SHARED_SUM

COUNTED = r"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry counted(.param .u64 count, .param .u64 out)
{
    .reg .pred %p;
    .reg .b32 %r<3>;
    .reg .b64 %d<3>;
    ld.param.u64 %d0, [count];
    ld.param.u64 %d1, [out];
    ld.global.u32 %r0, [%d0];
again:
    sub.u32 %r0, %r0, 1;
    setp.gt.s32 %p, %r0, 0;
    @%p bra again;
    st.global.u32 [%d1], %r0;
    ret;
}
"""
"""Goes round as often as a tensor says."""
KINDS = (KernelDebugger, WarpRoles, Barriers, SharedMemory, NanSpread)


@pytest.fixture
def out() -> torch.Tensor:
    return torch.zeros(64)


@pytest.fixture
def session(out: torch.Tensor) -> Session:
    return sglab.step(sglab.ptx(SHARED_SUM)[1, 64], out).session()


@pytest.mark.parametrize("kind", KINDS)
def test_whichever_runs_again_takes_the_others_along(kind: type, session: Session, out: torch.Tensor) -> None:
    made = {each: each(session) for each in KINDS}
    session.seek(9)
    out.add_(1)
    for widget in made.values():
        widget.after_cell()
        assert widget.outdated.startswith("out changed after this run")
    made[kind].run_again()
    for widget in made.values():
        assert widget.session is session and widget.outdated == ""
    assert session.now == made[WarpRoles].now == made[SharedMemory].position == 9
    # They move together as before, whoever moves them.
    made[WarpRoles].seek(11)
    assert session.now == made[Barriers].now == made[NanSpread].now == made[SharedMemory].position == 11
    made[KernelDebugger].go("seek", {}, position=5)
    assert made[WarpRoles].now == made[Barriers].now == 5
    session.step()
    assert made[WarpRoles].now == 6


def test_running_again_says_when_the_place_is_no_more(out: torch.Tensor) -> None:
    count = torch.tensor([40], dtype=torch.int32)
    session = sglab.step(sglab.ptx(COUNTED)[1, 32], count, out).session()
    widget = WarpRoles(session)
    session.seek(100)
    assert widget.run_again() == ""
    assert session.now == widget.now == 100
    count.fill_(2)
    assert widget.run_again() == f"This run ends after {session.now} instructions; before, the session was at 100."
    assert session.over and session.now == widget.now < 100


def test_running_again_says_when_another_order_led_to_the_place(session: Session) -> None:
    widget = WarpRoles(session)
    session.step(warp=1, count=3)
    assert "another" in widget.run_again()
    assert session.now == 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_widget_follows_no_more(kind: type, session: Session) -> None:
    kept, stays = kind(session), WarpRoles(session)
    kept.close()
    session.seek(7)
    assert stays.now == 7
    session.restart()
    assert stays.now == 0


def test_going_where_the_session_is_tells_nobody_of_a_move(session: Session) -> None:
    """Another widget has gone there, and the debugger follows: what others show is so already."""
    debugger, shared = KernelDebugger(session), SharedMemory(session)
    told = (debugger.moved, shared.stale)
    state = debugger.go("seek", {}, position=session.now)
    assert state["position"] == session.now == 0
    assert (debugger.moved, shared.stale) == told
    assert debugger.go("seek", {}, position=5)["position"] == session.now == 5
    assert debugger.moved > told[0] and shared.stale > told[1]
    with pytest.raises(TypeError, match="position"):
        debugger.go("seek", {})


def test_following_shows_a_move_of_which_the_page_was_told_and_has_not_asked(session: Session) -> None:
    """A page out of sight keeps only the newest of what it should do: to follow may stand for to catch up."""
    shared = SharedMemory(session)
    session.seek(9)
    assert shared.stale == 1 and shared.frames[0]["position"] == 0
    shared.follow(9)
    assert shared.frames[0]["position"] == 9
    revision = shared.revision
    shared.follow(9)
    assert shared.revision == revision
    session.step()
    assert shared.stale == 2


def test_what_one_cannot_show_does_not_stop_the_others(
    session: Session, out: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = NanSpread(session), WarpRoles(session)
    session.seek(3)

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("no look")

    monkeypatch.setattr(first, "_look", fails)
    session.restart()
    assert "this widget cannot show it: no look" in first.outdated
    assert second.now == 0


def test_breakpoints_and_watches_are_the_readers_and_stay(session: Session, out: torch.Tensor) -> None:
    widget = KernelDebugger(session, tensors={"out": out})
    widget.watch("out[0:2]", {})
    at = session.break_at(opcode="st.global")
    session.run_to(opcode="bar.sync")  # takes a number, and gives it back
    later = session.break_at(opcode="ld.shared", warp=1)
    widget.look({})
    widget.edit_stops("add_watch", {}, expression="out[0]", access="write")
    widget.edit_stops("enable", {}, id=1, enabled=False)
    widget.run_again()
    answer = widget.look({})
    assert [row["expression"] for row in answer["watches"]] == ["out[0:2]"]
    assert [(row["enabled"], row["number"]) for row in answer["stops"]][:2] == [(False, None), (True, later)]
    assert answer["stops"][2]["label"] == "out[0] is written"
    assert session.run().at.warp == 1
    with pytest.raises(SessionError, match=f"there is no breakpoint {at}"):
        session.unbreak(at)


def test_a_move_under_way_ends_when_a_cell_begins_again(session: Session) -> None:
    widget = KernelDebugger(session)
    widget._jobs._mover.slices.size = 2
    widget._jobs.start("to", None, {"ptx": 20})  # under way: its breakpoint is set
    next(widget._jobs._job)
    session.restart()
    assert widget.look({})["job"] is None and session.now == 0
    assert session.run().reason == "end"


def test_a_step_tells_python_of_the_selection_too(session: Session) -> None:
    """In the message that moves: one of its own would make the notebook busy once more."""
    shared = SharedMemory(session)
    heard: list[dict[str, object]] = []
    sglab.widgets.selection.observe(lambda change: heard.append(change["new"]), "value")
    try:
        shared.go(1, selected={"address": "smem+0x400", "moment": 3, "launch": "another", "by": "page"})
        assert heard == [{"address": "smem+0x400", "moment": shared.position, "launch": shared.launch_name}]
        shared.go(2)
        assert len(heard) == 1
        with pytest.raises(ValueError, match="moment"):
            shared.go(10_000, selected={"cta": 0})
        assert len(heard) == 1
    finally:
        sglab.widgets.selection.unobserve_all("value")
        sglab.widgets.selection.clear()
