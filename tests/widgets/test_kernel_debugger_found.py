"""KernelDebugger's Python side: what memory and registers hold, what was found in them, how a launch fails."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab import gpu
from sglab.emulator.watch import Watch
from sglab.labs.pipelines import Pipeline
from sglab.widgets import KernelDebugger
from sglab.widgets.kernel_debugger.found_memory import Place, touched
from tests.support.compilers import has_nvcc
from tests.support.launches.debugged import FOLLOW, go, make


def test_a_watch_shows_memory_and_stops_where_it_is_written() -> None:
    widget = make()
    state = widget.watch("out", FOLLOW)
    assert (state["watches"][0]["dtype"], state["watches"][0]["shape"]) == ("f32", [1])
    widget.edit_stops("add_watch", FOLLOW, expression="out", access="write")
    state = go(widget, "run")
    assert state["sentence"].startswith("Watch 1: out is written: warp 0 of CTA")
    assert state["watches"][0]["bytes"].view(np.float32)[0] == 0
    state = go(widget, "step")
    assert state["watches"][0]["bytes"].view(np.float32)[0] > 0
    assert widget.unwatch("out", FOLLOW)["watches"] == []


RACY = """__global__ void reverse(const float* x, float* out, int n) {
  __shared__ float tile[128];
  int t = threadIdx.x;
  if (t < n) tile[t] = x[blockIdx.x * n + t];
  out[blockIdx.x * 128 + t] = tile[127 - t];
}
"""


def racy(n: int) -> KernelDebugger:
    """No barrier between the writes of tile and its reads; with n < 128, some of it is never written."""
    x, out = torch.randn(2, 128), torch.zeros(2, 128)
    launch = sglab.step(sglab.cuda(RACY)[2, 128], x, out, n)
    return KernelDebugger(launch.session(), tensors={"x": x, "out": out})


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
def test_memory_in_which_something_was_found_can_be_watched_by_its_name() -> None:
    widget = racy(128)
    state = widget.look(FOLLOW)
    [race, *_] = [each for each in state["findings"] if each["detector"] == "races"]
    assert re.fullmatch(r"tile@[01]\[\d+(:\d+)?\]", race["watch"])
    at = race["at"]
    state = widget.watch("tile", {"cta": at["cta"], "warp": at["warp"]})
    marked = {element for number, element in state["watches"][0]["found"] if state["findings"][number] == race}
    named = [int(text) for text in re.findall(r"\d+", race["watch"].partition("[")[2])]
    assert marked == set(range(named[0], named[1] if len(named) > 1 else named[0] + 1))
    other = widget.watch(race["watch"], {"cta": 1 - at["cta"], "warp": 0})["watches"]
    assert [element for number, element in other[1]["found"] if number == state["findings"].index(race)] == list(
        range(len(marked))
    ), "the CTA that it names, not the one in focus"
    place = [Place("shared", 0, 512, at["cta"])]
    assert len(touched(Watch("tile", "shared", 0, (128,), (4,), "f32"), at["cta"], place)) == 128
    assert not touched(Watch("tile", "shared", 0, (128,), (4,), "f32"), 1 - at["cta"], place), "another CTA's"


@pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
def test_a_finding_in_a_tensor_names_its_element() -> None:
    out = torch.zeros(4, 8)
    source = "__global__ void all_write(float* out) { out[19] = threadIdx.x; out[blockIdx.x + 99] = 1; }"
    launch = sglab.step(sglab.cuda(source)[1, 64], out)
    widget = KernelDebugger(launch.session(), tensors={"out": out})
    found = {each["detector"]: each for each in widget.look(FOLLOW)["findings"]}
    assert found["races"]["watch"] == "out[2, 3]"
    assert widget.watch("out[2]", FOLLOW)["watches"][0]["found"] == [[0, 3]]
    assert all(not each["watch"] for each in found.values() if each["detector"] == "memory"), "nothing is there"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("nothing", "'nothing' names nothing here.*Names: out, partial, arg0, smem"),
        ("smem+0x400*9999", "1 to 256 elements are shown; got 9999"),
        ("smem:q7", "q7 is no dtype"),
        ("arg9", "no pointer argument is arg9; there are arg0, arg1"),
        ("arg0+99999999", "outside the launch's memory"),
        ("out[exit()]", "a subscript has integers and slices"),
    ],
)
def test_a_refused_watch_changes_nothing(expression: str, message: str) -> None:
    widget = make()
    with pytest.raises(ValueError, match=message):
        widget.watch(expression, FOLLOW)
    assert widget.look(FOLLOW)["watches"] == []


def test_registers_of_the_warp_looked_at() -> None:
    widget = make()
    go(widget, "event", {"cta": 0, "warp": 1})
    state = widget.look({"cta": 0, "warp": 1})
    assert state["focus"] == [0, 1, 0]
    expected = widget.session.registers(1, 0, 0)
    rows = state["registers"]["rows"]
    assert [row[0] for row in rows] == list(expected)
    at = 0
    for name, _, size in rows:
        length = 32 * size or 4
        if size:
            assert state["registers"]["bytes"][at : at + length].tobytes() == expected[name].values.tobytes()
        at += length
    assert at == len(state["registers"]["bytes"])


def test_a_kernel_that_fails_can_be_stepped_back() -> None:
    widget = make("clock_and_out_of_bounds")
    known = widget.look(FOLLOW)
    assert (known["failure"]["kind"], known["failed"], known["position"]) == ("out_of_bounds", False, 0)
    state = go(widget, "run")
    assert state["failed"]
    assert state["failure"]["position"] == state["position"] == known["length"]
    assert "outside" in state["failure"]["message"] or "bounds" in state["failure"]["message"]
    state = go(widget, "back")
    assert not state["failed"]
    assert state["position"] == known["length"] - 1
    assert go(widget, "end")["failed"]
    assert go(widget, "run_back")["position"] == 0


def test_a_failed_session_is_saved_as_failed(tmp_path: Path) -> None:
    widget = make("clock_and_out_of_bounds")
    go(widget, "run")
    widget.save(tmp_path / "page.html")
    assert widget.session.fault is not None
    assert widget.look(FOLLOW)["failed"]


def test_a_deadlock_is_reported_as_a_circle_of_waits() -> None:
    state = go(KernelDebugger(Pipeline("one_arrival").session()), "run")
    assert (state["failed"], state["failure"]["kind"]) == (True, "deadlock")
    waits = state["failure"]["cycle"]
    assert [wait["kind"] for wait in waits] == ["mbarrier"] * len(waits)
    at, seen = 0, []
    while at not in seen:
        seen.append(at)
        at = waits[at]["next"]
    assert at == 0
    assert waits[0]["warp"] == 0  # the load warp waits for a sum warp, which waits for it
    assert {row["role"] for row in state["warps"]} == {"load", "compute"}
    assert any("empty" in row["name"] for row in state["mbarriers"])


def test_findings_ahead_are_known_and_stay_known() -> None:
    widget = KernelDebugger(Pipeline("early_arrival").session(sanitize=True))
    ahead = widget.look(FOLLOW)
    assert ahead["position"] == 0
    [finding, *_] = ahead["findings"]
    assert finding["detector"] == "races"
    party, other = finding["at"], finding["other"]
    assert party["position"] != other["position"]
    state = go(widget, "seek", {"cta": party["cta"], "warp": party["warp"]}, position=party["position"])
    assert state["findings"] == ahead["findings"]
    assert widget.session.code[party["pc"]].ptx_line
    assert go(widget, "force", {"cta": 0, "warp": 1})["findings"] != ahead["findings"]


def test_a_session_that_failed_before_still_says_how() -> None:
    session = Pipeline("one_arrival").session()
    with pytest.raises(gpu.KernelError):
        session.run()
    state = KernelDebugger(session).look(FOLLOW)
    assert state["failed"] and state["failure"]["kind"] == "deadlock" and state["failure"]["cycle"]


def test_the_end_says_how_much_was_found() -> None:
    assert re.fullmatch(
        r"The launch has ended after [\d,]+ warp-instructions\.", go(make("collatz"), "run")["sentence"]
    )
    state = go(KernelDebugger(Pipeline("early_arrival").session(sanitize=True)), "run")
    count = len(state["findings"])
    assert count and state["sentence"].endswith(f" warp-instructions, with {count} finding{'s' * (count != 1)}.")
