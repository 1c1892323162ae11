"""DraftTree: its columns are the recorded run's, its commands, its page table, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from sglab.engine import BadArgumentError
from sglab.widgets import DraftTree, PageTable
from sglab.workbench import SpeculationRun
from tests.support.browser.every_widget import speculation


def test_columns_are_those_of_the_recorded_trees() -> None:
    run = speculation()
    widget = DraftTree(run, request=run.rids[1])
    trees = [tree for _, tree in run.of(run.rids[1])]
    nodes = np.frombuffer(widget.slices([{"name": "nodes", "start": 0, "stop": 99}])[0].tobytes(), np.int32)
    nodes = nodes.reshape(len(trees), len(trees[0].tokens), 10)
    for at, tree in enumerate(trees):
        assert nodes[at, :, 0].tolist() == tree.tokens
        assert nodes[at, :, 3].tolist() == tree.tree.next_token
        assert nodes[at, :, 4].tolist() == tree.tree.next_sibling
        assert [int(node) for node in np.argsort(nodes[at, :, 7]) if nodes[at, node, 7] >= 0] == tree.kept
        assert {(node, to) for node, to in enumerate(nodes[at, :, 8]) if to >= 0} == {
            (n, to) for n, _, to in tree.moves
        }
    assert widget.run["numbers"] == [one.number for one, _ in run.of(run.rids[1])]
    assert [each["name"] for each in widget.requests] == run.rids
    assert sum(each["accepted"] for each in widget.requests) == run.accepted


def test_another_request_is_shown_and_a_wrong_one_refused() -> None:
    run = speculation()
    widget = DraftTree(run)
    assert widget.show(1) == len(run.of(run.rids[1])) and widget.request == 1
    revision = widget.revision
    for wrong in (2, -1, True, "x", None):
        with pytest.raises(BadArgumentError):
            widget.show(wrong)  # type: ignore[arg-type]
    assert (widget.request, widget.revision) == (1, revision)


def test_its_page_table_is_that_of_the_pass() -> None:
    run = speculation()
    table = DraftTree(run).page_table(2)
    assert isinstance(table, PageTable)
    one, tree = run.of(run.rids[0])[2]
    assert table.batch.slots(one.trees.index(tree))[tree.prefix :].tolist() == tree.slots
    with pytest.raises(BadArgumentError, match="step: expected 0 to"):
        DraftTree(run).page_table(99)


def test_the_trail_from_a_pass_to_its_widgets() -> None:
    tree = DraftTree(speculation())
    number = speculation().of(speculation().rids[0])[1][0].number
    opened = tree.open_widget("PageTable", 1)
    assert opened["title"] == f"Page table of pass {number}" and '"widget":"page_table"' in opened["page"]
    assert tree.open_widget("SplitKV", 1)["widget"] == "SplitKV"
    with pytest.raises(ValueError, match="widget: expected one of PageTable, SplitKV"):
        tree.open_widget("Graph", 1)
    with pytest.raises(ValueError, match="step"):
        tree.open_widget("SplitKV", 1000)


def test_what_it_cannot_show_is_refused_by_name() -> None:
    with pytest.raises(BadArgumentError, match="run: expected what sglab"):
        DraftTree(7)  # type: ignore[arg-type]
    with pytest.raises(BadArgumentError, match="one verification at least"):
        DraftTree(SpeculationRun("NGRAM", "tiny"))
    with pytest.raises(BadArgumentError, match="step: expected 0 to"):
        DraftTree(speculation(), step=1000)


def test_a_saved_page_names_the_run(tmp_path: Path) -> None:
    page = DraftTree(speculation()).save(tmp_path / "tree.html").read_text(encoding="utf-8")
    assert "Draft tree" in page and "recorded run" in page
