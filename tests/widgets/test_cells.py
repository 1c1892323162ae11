"""Running a cell again frees the widgets that it replaces; after a cell, widgets say what has become stale."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

import sglab
from sglab.widgets import KernelDebugger, OnlineSoftmax, SplitKV, WarpRoles
from tests.support.browser.every_widget import capture


class Notebook:
    """Cells of a shell, by their ids."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell

    def run(self, cell: str, code: str) -> None:
        result = self.shell.run_cell(code, store_history=True, cell_id=cell)
        result.raise_error()

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]


@pytest.fixture
def notebook() -> Iterator[Notebook]:
    shell = InteractiveShell.instance()
    shell.user_ns["kept"] = SimpleNamespace(ref=weakref.ref)
    made = Notebook(shell)
    made.run("first", "import sglab\nsglab.widgets.SplitKV([1])")  # from then on the shell is listened to
    yield made
    shell.reset(new_session=False)
    InteractiveShell.clear_instance()


def test_a_cell_that_runs_again_closes_what_it_displayed_before(notebook: Notebook) -> None:
    notebook.run("a", "import sglab\nshown = sglab.widgets.SplitKV([300])\nkept.first = kept.ref(shown)")
    notebook.run("a", "shown = sglab.widgets.SplitKV([300])\nshown")
    first = notebook["kept"].first()
    assert first is None or first.comm is None
    assert notebook["shown"].comm is not None or notebook["shown"].revision == 1


def test_what_a_variable_holds_stays(notebook: Notebook) -> None:
    notebook.run("a", "import sglab\nmine = [sglab.widgets.SplitKV([300])]")
    notebook.run("a", "sglab.widgets.SplitKV([300])")
    assert notebook["mine"][0].plans


def test_a_closed_widget_keeps_nothing_of_a_run() -> None:
    widget = WarpRoles(capture())
    assert {"recording", "timed"} <= vars(widget).keys()
    widget.close()
    assert widget._tensors == {}
    assert vars(widget).keys().isdisjoint(("recording", "timed", "reads"))


def test_written_tensors_make_a_run_stale_until_it_runs_again() -> None:
    batch = sglab.decode_batch([64], num_heads=4, page_size=16, seed=0)
    widget = OnlineSoftmax(batch, 0, implementation="reference")
    widget.after_cell()
    assert widget.outdated == ""
    batch.q.mul_(2.0)
    widget.after_cell()
    assert widget.outdated.startswith("the queries changed after this run")
    before = widget.recorded.scores.clone()
    widget.run_again()
    assert widget.outdated == ""
    torch.testing.assert_close(widget.recorded.scores, 2 * before)


def test_a_launch_runs_again_on_what_its_tensors_hold_now() -> None:
    session = capture().session()
    widget = KernelDebugger(session)
    held = session.launch.tensors[0]
    before = held.tensor.clone()
    held.tensor.add_(1)
    widget.after_cell()
    assert "changed after this run" in widget.outdated
    widget.run_again()
    assert widget.outdated == "" and widget.session is session and session.restarts == 1
    held.tensor.copy_(before)  # other tests have the same launch


def test_a_plan_is_stale_when_the_batch_has_other_lengths() -> None:
    batch = sglab.decode_batch([300, 77], num_heads=128, page_size=64, seed=0)
    widget = SplitKV(batch)
    batch.extend_by_token(0)
    widget.after_cell()
    assert "other lengths" in widget.outdated
    widget.run_again()
    assert widget.outdated == "" and widget.seq_lens.tolist() == [301, 77]


def test_what_a_press_changes_the_others_see_at_once(notebook: Notebook) -> None:
    notebook.run("a", "batch = sglab.decode_batch([300, 77], num_heads=128, page_size=64, seed=0)")
    notebook.run("b", "table, plan = sglab.widgets.PageTable(batch), sglab.widgets.SplitKV(batch)")
    number = notebook["table"].edit("extend", request=0)["number"]
    assert "other lengths" in notebook["plan"].outdated
    notebook["table"].undo(number)
    assert notebook["plan"].outdated == ""
