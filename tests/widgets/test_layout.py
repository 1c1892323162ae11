"""Layout's traits, commands and saved page; where elements lie is tested in tests/layouts."""

from __future__ import annotations

import numpy as np
import pytest

from sglab import layouts
from sglab.widgets import Layout


def test_it_shows_the_tile_that_the_analysis_gives() -> None:
    widget = Layout("Sw<3,3,3> o (32,64):(64,1)", "bf16", order="rows", lane_bytes=8)
    tile = layouts.tile_of("Sw<3,3,3> o (32,64):(64,1)", "bf16", "rows", 8)
    (cells,) = widget.slices([{"name": "cells", "start": 0, "stop": 6}])
    np.testing.assert_array_equal(
        cells.array, [tile.place, tile.lane, tile.register, tile.part, tile.group, tile.phase]
    )
    shown = widget.shown
    assert (shown["space"], shown["rows"], shown["columns"], shown["takenBytes"]) == ("smem", 32, 64, 8)
    assert shown["passes"] == [use.passes for use in tile.uses] and len(shown["steps"]) == len(tile.uses)
    assert widget.header["badge"]["text"] == "layout" and "no kernel was run" in widget.header["badge"]["title"]


def test_another_layout_is_shown_and_what_is_not_said_stays() -> None:
    widget = Layout("(8,8):(8,1)", "f32", lane_bytes=4)
    widget.show(layout="(8,8):(1,8)")
    assert (widget.shown["text"], widget.shown["element"], widget.shown["laneBytes"]) == ("(8,8):(1,8)", "f32", 4)
    widget.show(layout="mma.m16n8k16.f16.A")
    assert (widget.shown["space"], widget.shown["placeRows"]) == ("registers", 32)
    widget.show(element="f16", layout="16:1", order="rows")
    assert widget.shown["space"] == "smem" and widget.shown["order"] == "rows"


@pytest.mark.parametrize("change", [{"layout": "8:"}, {"element": "f17"}, {"order": "up"}, {"lane_bytes": 3}])
def test_a_refused_call_changes_nothing(change: dict) -> None:
    widget = Layout("(8,8):(8,1)")
    before = (widget.revision, widget.shown, widget.tile)
    with pytest.raises(ValueError):
        widget.show(**change)
    assert (widget.revision, widget.shown, widget.tile) == before


def test_objects_are_taken_as_texts_are() -> None:
    assert Layout(layouts.fragment("ldmatrix.x4")).shown["space"] == "registers"
    assert Layout(layouts.shared_tile("64B", 32, 32)).shown["text"].startswith("Sw<2,3,3> o ")


def test_everything_offered_can_be_shown() -> None:
    widget = Layout()
    for text, _ in widget.offered:
        widget.show(layout=text)
        assert widget.shown["asked"] == text
