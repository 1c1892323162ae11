"""Roofline's traits, commands and refusals; the counts are tested in tests/roofline."""

from __future__ import annotations

import pytest
import torch
import traitlets

from sglab import roofline
from sglab.roofline import MACHINES, Machine, Point
from sglab.widgets import KernelDebugger, Roofline, WarpRoles
from sglab.widgets.base import STATIC
from tests.support.launches.nan_sessions import LANES, softmax

POINT = Point("MLA", roofline.mla_decode([4096]), "arithmetic")
MEASURED = Point("MLA", POINT.work, "measured", 20e-6, "H200")


def test_points_lie_under_the_roofs_of_every_machine() -> None:
    widget = Roofline(POINT, [MEASURED])
    first, second = widget.marks
    assert first["seconds"] is None and second["seconds"] == 20e-6
    for name, place in first["at"].items():
        wanted = MACHINES[name].place(POINT.work)
        assert (place["intensity"], place["attainable"]) == (wanted.intensity, wanted.attainable)
    assert set(first["at"]) == set(MACHINES) and widget.machine == "H200"  # where the first time was taken
    assert widget.header["badge"]["text"] == "arithmetic · measured"
    ceilings = {row["name"]: row["ceilings"] for row in widget.machines}
    assert ceilings["B200"][0] == ["memory", 8e12, MACHINES["B200"].by_kind["memory"].source]


def test_a_launch_is_counted_modelled_and_opened() -> None:
    session, _ = softmax(torch.zeros(2, LANES))
    widget = Roofline(session)
    assert [mark["origin"] for mark in widget.marks][:2] == ["emulated", "modelled"]
    assert widget.marks[0]["opens"] == ["WarpRoles", "KernelDebugger"]
    assert isinstance(widget.launch("WarpRoles", 0), WarpRoles)
    opened = widget.open_launch("KernelDebugger", 1)
    made = widget._opened[-1]
    assert isinstance(made, KernelDebugger) and opened["model"] == made.model_id
    assert made.session is session and opened["page"].startswith("<!doctype html>")
    assert Roofline(session.log).marks[0]["opens"] == ["WarpRoles"]


def test_points_are_added_watched_and_taken_away_while_it_is_shown() -> None:
    widget = Roofline(machine="B200")
    assert widget.marks == [] and widget.machine == "B200"
    widget.add(POINT)
    widget.add_attention("decode", batch=32, length=4096, num_heads=32, num_kv_heads=8)
    assert widget.points[1].work == roofline.decode([4096] * 32)
    widget.add_attention("mla_decode", batch=1, length=4096, num_heads=16)
    assert widget.points[2].label == "MLA decode 1 × 4,096, 16 heads"
    widget.add_attention("decode", batch=32, length=4096, num_heads=32, num_kv_heads=4)
    widget.add_attention("decode", batch=1, length=1, num_heads=1, head_dim=64, dtype="float8_e4m3fn")
    assert [point.label for point in (widget.points[1], *widget.points[3:])] == [
        "decode 32 × 4,096, 32 heads on 8 KV heads",
        "decode 32 × 4,096, 32 heads on 4 KV heads",
        "decode 1 × 1, 1 head on 1 KV head, dim 64, float8_e4m3fn",
    ]
    with widget.watch(series="runs"):
        softmax(torch.zeros(2, LANES))[0]
    before = widget.revision
    widget.remove(0)
    assert widget.revision == before + 1 and widget.marks[0]["label"].startswith("decode 32")
    widget.show("H100")
    assert widget.machine == "H100" and widget.header["subject"].startswith(MACHINES["H100"].product)


def test_launches_made_while_watching_appear() -> None:
    widget = Roofline()
    session, _ = softmax(torch.zeros(2, LANES))
    with widget.watch(label="softmax", series="runs"):
        session.device.run(session.launch)
    assert {mark["label"] for mark in widget.marks} == {"softmax"}
    assert {mark["series"] for mark in widget.marks} == {"runs"}


def test_a_machine_of_ones_own_is_offered() -> None:
    own = Machine("mine", "my GPU", "", MACHINES["H100"].ceilings[:2])
    widget = Roofline(POINT, machine=own)
    assert widget.machine == "mine" and widget.machines[-1]["product"] == "my GPU"
    assert "mine" not in Roofline(POINT).marks[0]["at"]


def test_every_widget_sends_the_same_library() -> None:
    first, second = Roofline(), Roofline()
    assert first._tensors["plotly"] is second._tensors["plotly"]
    assert first._tensors["plotly"].tobytes() == (STATIC / "plotly.js").read_bytes()


def test_the_machine_is_set_as_an_attribute_too() -> None:
    widget = Roofline(roofline.Point("a", roofline.decode(100), "arithmetic"), machine="H100")
    revision = widget.revision
    widget.machine = "B200"
    assert widget.revision == revision + 1, "the page is told"
    assert widget.machine == "B200" and widget.header["subject"].startswith("B200")
    with pytest.raises(traitlets.TraitError, match="machine: expected one of H100, H200, B200; got 'V100'"):
        widget.machine = "V100"
    assert widget.machine == "B200" and widget.revision == revision + 1


def test_refusals_change_nothing() -> None:
    widget = Roofline(POINT)
    for call, error, message in (
        (lambda: widget.add(torch.zeros(3)), TypeError, "thing must be what sglab.trace, .*Point"),  # type: ignore[arg-type]
        (lambda: widget.add([POINT, "x"]), TypeError, "thing must be what sglab.trace, .*Point"),  # type: ignore[list-item]
        (lambda: widget.show("A100"), ValueError, "machine: expected one of"),
        (lambda: widget.remove(1), ValueError, "point: expected a number from 0 to 0"),
        (lambda: widget.launch("WarpRoles", 0), ValueError, "came from nothing that WarpRoles can show"),
        (lambda: widget.launch("PageTable", 0), ValueError, "widget: expected one of"),  # type: ignore[arg-type]
        (lambda: widget.add_attention("linear", 1, 1, 1), ValueError, "kind: expected one of"),
        (lambda: widget.add_attention("decode", 0, 1, 1), ValueError, "batch: expected"),
        (lambda: widget.add_attention("decode", 1, 1, 6, 4), ValueError, "num_kv_heads: expected a divisor"),
    ):
        with pytest.raises(error, match=message):
            call()
    assert len(widget.points) == len(widget.marks) == len(widget._launches) == 1
