"""The extension's questions: every one has an answer, an error in words included."""

from __future__ import annotations

import gc
import json
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.jupyterlab import answer
from sglab.labs import mla_sm100 as lab
from sglab.widgets import selection
from tests.support.launches.shared_sum import SHARED_SUM


class Notebook:
    """Variables of the main module, where the answers look for them without IPython."""

    def __init__(self) -> None:
        self._defined: set[str] = set()

    def define(self, **names: Any) -> None:
        vars(sys.modules["__main__"]).update(names)
        self._defined |= set(names)

    def forget(self) -> None:
        for name in self._defined:
            delattr(sys.modules["__main__"], name)


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    for widget in selection.widgets:  # other tests' widgets show things, too
        widget.close()
    made = Notebook()
    yield made
    made.forget()
    for widget in selection.widgets:
        widget.close()


def asked(question: str, **arguments: Any) -> dict[str, Any]:
    """As it crosses: JSON."""
    told = json.loads(json.dumps(answer(question, **arguments)._repr_json_()))
    assert told.pop("protocol") == 1
    return told


def number_of(name: str) -> int:
    return next(row["number"] for row in asked("list")["things"] if name in row["names"])


def launch() -> Any:
    return sglab.step(sglab.ptx(SHARED_SUM)[1, 64], torch.zeros(64))


def widget_of(model: str) -> Any:
    return next(each for each in selection.widgets if each.model_id == model)


def test_every_listed_widget_opens(notebook: Notebook) -> None:
    one = launch()
    batch = sglab.decode_batch([40], num_heads=16, page_size=64, dtype="float32")
    notebook.define(batch=batch, launch=one, log=one.session().log)
    rows = [row for row in asked("list")["things"] if row["names"][0] in ("batch", "launch", "log")]
    opened = {
        (row["kind"], widget): asked("open", thing=row["number"], widget=widget)
        for row in rows
        for widget in row["widgets"]
    }
    assert len(opened) == 4 + 7 + 4
    for (_, name), told in opened.items():
        if name == "Roofline":
            assert "shared_sum has no FLOPs" in told["error"]
        else:
            assert type(widget_of(told["model"])).__name__ == name


def test_widgets_of_one_launch_share_a_session(notebook: Notebook) -> None:
    caught = sglab.gpu.capture(lambda: launch().run())
    notebook.define(caught=caught)
    models = [asked("open", thing=number_of("caught"), widget=name)["model"] for name in ("KernelDebugger", "Barriers")]
    first, second = (widget_of(model).session for model in models)
    assert first is second


def test_a_timeline_knows_the_batch_whose_pages_the_launch_reads(notebook: Notebook) -> None:
    other = sglab.decode_batch([40], num_heads=128, page_size=128, dtype="float16")
    batch = sglab.decode_batch([300], num_heads=128, page_size=128, dtype="float16")
    session = lab.Launched(batch).session()
    notebook.define(other=other, batch=batch, session=session)
    model = asked("open", thing=number_of("session"), widget="WarpRoles")["model"]
    assert set(widget_of(model).reads.page) == set(batch.pages(0))


def test_a_closed_widget_is_gone_and_its_thing_can_go(notebook: Notebook) -> None:
    one = launch()
    notebook.define(one=one)
    model = asked("open", thing=number_of("one"), widget="KernelDebugger")["model"]
    assert asked("view", model=model) == {"model": model}
    assert asked("close", model=model) == {}
    assert asked("view", model=model) == {"model": None}
    assert asked("close", model=model) == {}
    gone = weakref.ref(one)
    notebook.define(one=None)
    del one
    gc.collect()
    assert gone() is None


def test_next_finding_goes_round(notebook: Notebook) -> None:
    one = launch()
    notebook.define(one=one)
    number = number_of("one")
    said = asked("next_finding", thing=number)["said"]
    assert said.startswith("1 of 1: uninitialised read, CTA (0, 0, 0) warp 1, PTX line ")
    finding = one.session().now
    one.session().run()
    assert one.session().over
    assert asked("next_finding", thing=number)["said"] == said
    assert one.session().now == finding


def test_next_finding_says_why_there_is_none(notebook: Notebook) -> None:
    device = sglab.gpu.EmulatedDevice("sm_90a")
    plain = sglab.gpu.load(SHARED_SUM)["shared_sum"].session(device, grid=1, block=64, args=[torch.zeros(64)])
    notebook.define(plain=plain, log=plain.log)
    assert "sanitize=True" in asked("next_finding", thing=number_of("plain"))["said"]
    assert "findings are of sessions" in asked("next_finding", thing=number_of("log"))["error"]


def test_a_recording_is_saved_under_a_free_name(
    notebook: Notebook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook.define(one=launch())
    model = asked("open", thing=number_of("one"), widget="WarpRoles")["model"]
    names = [asked("save", model=model)["path"] for _ in range(2)]
    assert names == ["warp_roles_shared_sum.sglab", "warp_roles_shared_sum-1.sglab"]
    content = json.loads((tmp_path / names[0]).read_text())
    assert (content["sglab"], content["format"], content["title"]) == ("recording", 1, "Warp roles")
    assert [each["widget"] for each in content["widgets"]] == ["warp_roles"]


@pytest.mark.parametrize(
    ("question", "arguments", "words"),
    [
        ("open", {"thing": 10**6, "widget": "PageTable"}, "it is gone"),
        ("save", {"model": "none"}, "the widget is gone"),
        ("dance", {}, "dance"),
        ("open", {}, "missing"),
    ],
)
def test_what_cannot_be_done_is_said(question: str, arguments: dict[str, Any], words: str) -> None:
    assert words in asked(question, **arguments)["error"]


@pytest.mark.parametrize("widget", ["Nonsense", "selection", "html_page", "__doc__"])
def test_a_widget_that_does_not_exist_is_refused(notebook: Notebook, widget: str) -> None:
    notebook.define(one=launch())
    assert f"has no widget {widget!r}" in asked("open", thing=number_of("one"), widget=widget)["error"]
