"""What the extension lists of a notebook: batches, launches, sessions, recordings, by the names they have there."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab import gpu, layouts, roofline
from sglab.jupyterlab.opening import open_widget
from sglab.jupyterlab.things import MOST_OF_A_CAPTURE, Numbers, Thing, list_things
from sglab.serving import GraphLog
from sglab.serving.ranks import Ranks
from sglab.widgets import DraftTree, KernelDebugger
from sglab.workbench import RanksRun, record_experts, record_speculation
from tests.support.launches.shared_sum import SHARED_SUM
from tests.support.ranks import fork_follower


def launch() -> Any:
    return sglab.step(sglab.ptx(SHARED_SUM)[1, 64], torch.zeros(64))


def listed(names: dict[str, Any], widgets: tuple[Any, ...] = (), numbers: Numbers | None = None) -> list[Thing]:
    return list_things(names, widgets, numbers or Numbers())


def test_a_batch_says_what_it_holds_and_what_opens_on_it() -> None:
    batch = sglab.decode_batch([300, 77], num_heads=16, page_size=64, dtype="float16")
    (row,) = listed({"batch": batch, "_": batch, "In": [], "number": 7})
    assert (row.kind, row.names, row.title) == ("batch", ["batch"], "2 requests, 377 tokens")
    assert row.detail == "mla, 16 heads, pages of 64, float16"
    assert row.widgets == ("PageTable", "SplitKV", "OnlineSoftmax", "BackendExplorer")
    prompt = sglab.extend_batch([8], num_heads=16, page_size=64)
    assert "OnlineSoftmax" not in listed({"prompt": prompt})[0].widgets


def test_a_launch_its_session_and_its_recording_are_told_apart() -> None:
    one = launch()
    rows = listed({"launch": one, "session": one.session(), "log": one.session().log})
    assert [(row.kind, row.names, row.title) for row in rows] == [
        ("launch", ["launch"], "shared_sum"),
        ("session", ["session"], "shared_sum"),
        ("recording", ["log"], "shared_sum"),
    ]
    assert rows[0].detail == "grid 1, block 64"
    assert "KernelDebugger" not in rows[2].widgets


def test_what_recorders_of_the_engine_give_opens_their_widgets() -> None:
    engine = sglab.Engine("tiny", speculative_algorithm="NGRAM", max_total_tokens=256)
    with engine, record_speculation(engine) as drafts, record_experts(engine.model) as routing:
        engine.generate("aaaa", {"temperature": 0, "max_new_tokens": 4})
    rows = listed({"drafts": drafts, "routing": routing, "ranks": RanksRun("tp 2", 2, 1, 1, "gloo")})
    assert [(row.kind, row.names, row.widgets) for row in rows] == [
        ("run", ["drafts"], ("DraftTree",)),
        ("run", ["routing"], ("Experts",)),
        ("run", ["ranks"], ("Ranks",)),
    ]
    assert rows[0].title == "NGRAM speculation" and "drafts kept" in rows[0].detail
    (row,) = listed({}, (DraftTree(drafts),))
    assert (row.kind, row.names) == ("run", [])


@pytest.mark.parametrize("groups", [1, 2])
def test_an_engine_of_ranks_is_left_out_and_the_others_are_listed(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a scheduler per group, which no widget shows."""
    monkeypatch.setattr(Ranks, "_start", fork_follower)
    options = {"tp_size": 2, "dp_size": groups, "max_total_tokens": 256, "page_size": 16}
    with sglab.Engine("tiny", device="cpu", **options) as engine:
        rows = listed({"engine": engine, "ranks": RanksRun("tp 2", 2, 1, 1, "gloo")})
    assert [row.names for row in rows] == [["ranks"]]


def test_an_engines_recordings_open_their_widgets() -> None:
    engine = sglab.Engine("tiny", max_total_tokens=256, page_size=16, cuda_graph=True, cuda_graph_bs=(1, 2))
    with engine, engine.record() as steps:
        replays = GraphLog(engine)
        engine.generate("aaaa", {"temperature": 0, "max_new_tokens": 4})
        replays.stop()
    rows = listed({"steps": steps, "replays": replays})
    assert [(row.kind, row.names, row.title, row.widgets) for row in rows] == [
        ("run", ["steps"], "Steps of a scheduler", ("Scheduler", "RadixTree")),
        ("run", ["replays"], "Replays of captured graphs", ("Graph",)),
    ]
    assert rows[0].detail.endswith("4 steps, 1 request, stopped") and rows[1].detail.startswith("3 replays")
    assert type(open_widget(replays, "Graph", ())).__name__ == "Graph"
    shown = open_widget(engine, "Scheduler", ())
    assert [row.kind for row in listed({}, (shown,))] == ["run"]
    assert [row.kind for row in listed({"engine": engine}, (shown,))] == ["engine"]  # its own recording is not another


def test_layouts_fragments_and_points_open_their_widgets() -> None:
    tile, composed = layouts.parse("(32,64):(64,1)"), layouts.parse("Sw<3,3,3> o (8,64):(64,1)")
    point = roofline.Point("MLA", roofline.mla_decode([512]), "arithmetic")
    names = {"tile": tile, "composed": composed, "mma": layouts.fragment("mma.m16n8k16.f16.A"), "point": point}
    rows = listed(names)
    assert [(row.kind, row.title, row.widgets) for row in rows] == [
        ("layout", "(32,64):(64,1)", ("Layout",)),
        ("layout", str(composed), ("Layout",)),
        ("layout", "mma.m16n8k16.f16.A", ("Layout",)),
        ("points", "MLA", ("Roofline",)),
    ]
    for thing, row in zip(names.values(), rows, strict=True):
        assert type(open_widget(thing, row.widgets[0], ())).__name__ == row.widgets[0]
    session = launch().session()
    with pytest.raises(ValueError, match="has no FLOPs"):
        open_widget(session, "Roofline", ())


def test_a_thing_with_two_names_is_one_row() -> None:
    one = launch()
    (row,) = listed({"launch": one, "same": one})
    assert row.names == ["launch", "same"]


def test_what_only_a_widget_shows_is_listed_without_a_name() -> None:
    session = launch().session()
    widget = KernelDebugger(session)
    (row,) = listed({}, (widget,))
    assert (row.kind, row.names) == ("session", [])
    assert [row.names for row in listed({"session": session}, (widget,))] == [["session"]]


def test_the_session_that_a_widget_made_of_a_listed_launch_is_no_row_of_its_own() -> None:
    one = launch()
    assert [row.kind for row in listed({"launch": one}, (KernelDebugger(one.session()),))] == ["launch"]


def test_of_a_capture_the_launches_are_named_up_to_a_limit() -> None:
    kernel = gpu.load(SHARED_SUM)["shared_sum"]
    device, out = gpu.EmulatedDevice("sm_90a"), torch.zeros(64)

    def several(count: int) -> Any:
        return gpu.capture(lambda: [kernel.launch(device, grid=1, block=64, args=[out]) for _ in range(count)])

    rows = listed({"launches": several(2)})
    assert [row.names for row in rows] == [["launches"], ["launches[0]"], ["launches[1]"]]
    assert rows[0].title == "2 launches, most of it shared_sum"
    assert len(listed({"many": several(MOST_OF_A_CAPTURE + 5)})) == 1 + MOST_OF_A_CAPTURE


def test_numbers_stay_and_keep_nothing_alive() -> None:
    numbers, one, two = Numbers(), launch(), launch()
    first = [row.number for row in listed({"one": one, "two": two}, numbers=numbers)]
    assert [row.number for row in listed({"two": two, "one": one}, numbers=numbers)] == first[::-1]
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None and numbers.thing(first[0]) is None and numbers.thing(first[1]) is two


def test_a_value_that_answers_every_attribute_is_none_of_ours() -> None:
    class Everything:
        def __getattr__(self, name: str) -> Everything:
            return self

    assert listed({"everything": Everything()}) == []
