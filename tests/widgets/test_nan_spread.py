"""NanSpread's traits, commands and header; the analysis is tested in tests/emulator/test_nans.py."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sglab.emulator.nans import ROLES
from sglab.widgets import NanSpread
from sglab.widgets.nan_spread import sentence
from tests.support.launches.nan_sessions import LANES, empty_row, softmax


def test_it_shows_the_events_and_who_read_from_whom() -> None:
    widget = NanSpread(empty_row())
    events, links = widget.slices([{"name": "events", "start": 0, "stop": 5}, {"name": "links", "start": 0, "stop": 2}])
    assert [list(ROLES)[role] for role in events.array[0]] == [event.role for event in widget.trace]
    np.testing.assert_array_equal(events.array[2], [event.position for event in widget.trace])
    wanted = {(parent, event.number) for event in widget.trace for parent in event.parents}
    assert set(zip(*links.array.tolist(), strict=True)) == wanted
    shown = widget.shown
    assert shown["rows"] == ["global memory", "shared memory", "CTA 1 warp 0"]
    assert shown["sentences"][shown["first"]] == "sub.f32 made NaN in %f3 of all lanes: nothing that it read was."
    assert widget.header["subject"].endswith("1 origin")


def test_the_first_nan_says_of_what_it_was_made() -> None:
    """Of −inf − −inf: the instruction alone does not tell, and the session stays where it is."""
    session = empty_row()
    session.seek(5)
    widget = NanSpread(session)
    facts = dict(map(tuple, widget.shown["facts"][widget.shown["first"]]))
    assert facts["read by lane 0"] == "%f0 = -inf, %f1 = -inf"
    assert session.now == 5


def test_every_origin_says_of_what_it_was_made_and_no_widget_hears_of_the_looking() -> None:
    x = torch.zeros(4, LANES)
    x[1] = x[3] = -torch.inf
    session, _ = softmax(x)
    heard: list[int] = []
    session.on_move(lambda: heard.append(session.now))
    widget = NanSpread(session)
    told = [dict(map(tuple, widget.shown["facts"][origin])) for origin in widget.shown["origins"]]
    assert [facts["read by lane 0"] for facts in told] == 2 * ["%f0 = -inf, %f1 = -inf"]
    assert not heard or set(heard) == {0}


def test_infinities_are_not_called_nan_and_what_is_no_bool_is_refused() -> None:
    widget = NanSpread(empty_row(), infinite=True)
    assert not any(term.startswith("NaN ") for facts in widget.shown["facts"] for term, _ in facts)
    with pytest.raises(TypeError, match="infinite must be True or False; got 'x'"):
        NanSpread(empty_row(), infinite="x")  # type: ignore[arg-type]


def test_what_was_stored_beyond_the_drawn_events_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglab.widgets.nan_spread.DRAWN", 5)
    assert NanSpread(empty_row()).shown["later"] == "out"


def test_lanes_that_made_theirs_are_told_beside_those_that_read_one() -> None:
    """Lane 7: ∞ − ∞. Lane 9 read a NaN. The maximum of all others is the infinity, so that nothing else is made."""
    x = torch.zeros(1, LANES)
    x[0, 7], x[0, 9] = torch.inf, torch.nan
    widget = NanSpread(softmax(x)[0])
    event = next(each for each in widget.trace if each.instruction.opcode == "sub.f32")
    assert (event.role, event.made) == ("spread", 1 << 7) and event.number in widget.shown["origins"]
    assert widget.shown["sentences"][event.number] == (
        "sub.f32 of lane 9 read it in %f0 and wrote it to %f3; lane 7 made it."
    )
    facts = dict(map(tuple, widget.shown["facts"][event.number]))
    assert facts["made by"] == "lane 7: nothing that it read was NaN"
    assert facts["read by lane 7"] == "%f0 = inf, %f1 = inf"


def test_an_event_moves_the_session_to_before_its_instruction() -> None:
    widget = NanSpread(empty_row())
    widget.seek(event=2)
    assert widget.session.now == widget.now == widget.trace[2].position
    with pytest.raises(ValueError, match="event: expected a number from 0"):
        widget.seek(event=10_000)


def test_a_debugger_is_opened_where_the_session_has_none() -> None:
    widget = NanSpread(empty_row())
    opened = widget.debug(event=2)
    assert (opened["widget"], opened["page"]) == ("KernelDebugger", "")
    assert widget.session.now == widget.trace[2].position
    again = widget.debug(event=1, page=True)
    assert again["model"] == opened["model"] and again["page"].startswith("<!doctype html>")
    other = NanSpread(widget.session)
    assert other.debug(event=3) == {}  # the first one's follows
    assert widget.session.now == widget.trace[3].position


def test_looking_again_and_running_again() -> None:
    x = torch.zeros(1, LANES)
    x[0, 3] = -torch.inf
    session, _ = softmax(x)
    widget = NanSpread(session)
    assert widget.shown["sentences"] == [] and widget.shown["first"] == -1
    widget.look(infinite=True)
    assert widget.shown["infinite"] and widget.shown["first"] == 0
    assert ["made", "made here: nothing that it read was NaN or infinity"] in widget.shown["roles"]
    x[0] = torch.nan
    widget.after_cell()
    assert widget.outdated
    widget.run_again()
    assert not widget.outdated and widget.trace.first is not None and widget.trace.first.role == "came"


def test_what_is_no_launch_is_refused() -> None:
    with pytest.raises(TypeError, match="launch must be what"):
        NanSpread(torch.zeros(3))  # type: ignore[arg-type]


def test_a_long_mnemonic_ends_a_sentence_with_one_sign() -> None:
    opcode = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
    place = SimpleNamespace(text="kv+0x40", written=False)
    came = SimpleNamespace(
        role="came", kind="operation", instruction=SimpleNamespace(opcode=opcode), places=[place], lanes_written=4
    )
    assert sentence(came) == "NaN came in from kv+0x40, with cp.async.bulk.tensor…"
