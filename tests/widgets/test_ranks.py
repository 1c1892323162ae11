"""Ranks: its columns are the recorded run's, what its command changes, and what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from sglab.engine import BadArgumentError
from sglab.widgets import PageTable, Ranks
from sglab.workbench import RanksRun
from tests.support.browser.every_widget import ranks


def test_rows_are_the_collectives_of_the_pass_in_order() -> None:
    run = ranks()
    widget = Ranks(run, step=1)
    joints = run.of_pass(1)
    assert [each["module"] for each in widget.joints] == [joint.any.module for joint in joints]
    assert [each["moved"] for each in widget.joints] == [joint.moved for joint in joints]
    shown = re.search(r"([\d.]+) KiB to ([\d.]+) KiB a rank", widget.header["subject"])
    apart = sum(joint.any.nbytes for joint in joints if "send" in (one.kind for one in joint.on.values()))
    together = sum(joint.moved for joint in joints) - apart
    assert shown and float(shown[1]) == pytest.approx(together / 1024, rel=0.01)
    assert float(shown[2]) == pytest.approx((together + apart) / 1024, rel=0.01), "rank 1 sends its logits besides"
    times = widget._tensors["times"].array
    assert times.shape == (len(joints), 2, 2)
    for at, joint in enumerate(joints):
        for rank in (0, 1):
            taken = times[at, rank, 1] - times[at, rank, 0]
            one = joint.on.get(rank)
            assert np.isnan(taken) if one is None else taken == pytest.approx((one.end - one.start) / 1e3)
    assert np.nanmin(times) >= 0 and np.nanmin(widget._tensors["begins"].array) == 0


def test_each_weight_says_what_every_rank_holds() -> None:
    run = ranks()
    weights = {each["name"]: each for each in Ranks(run).shards}
    assert len(weights) == len(run.shards[0])
    experts = weights["model.layers.1.mlp.experts"]["held"]
    assert [held["parts"][0]["ids"] for held in experts] == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_another_pass_is_shown_and_a_wrong_one_refused() -> None:
    widget = Ranks(ranks())
    assert widget.show(1) == len(ranks().of_pass(1)) and widget.step == 1
    revision = widget.revision
    for wrong in (-1, 99, True, "x", None):
        with pytest.raises(BadArgumentError):
            widget.show(wrong)  # type: ignore[arg-type]
    assert (widget.step, widget.revision) == (1, revision)


def test_a_layer_s_page_table_is_that_of_the_prompts_of_all_groups() -> None:
    table = Ranks(ranks()).page_table(layer=1)
    assert isinstance(table, PageTable)
    assert table.batch.seq_lens.tolist() == [len(ids) for starts in ranks().passes[0] for ids in starts.tokens]
    assert len(table.batch.seq_lens) == ranks().dp_size == 2


def test_the_trail_from_a_layer_to_its_widgets() -> None:
    shown = Ranks(ranks())
    opened = shown.open_widget("PageTable", 1)
    assert opened["title"] == "Page table of layer 1" and '"widget":"page_table"' in opened["page"]
    assert shown.open_widget("SplitKV", 1)["title"] == "Split KV of layer 1"
    with pytest.raises(ValueError, match="widget: expected one of PageTable, SplitKV"):
        shown.open_widget("Graph", 1)


def test_what_it_cannot_show_is_refused_by_name() -> None:
    with pytest.raises(BadArgumentError, match="run: expected what sglab"):
        Ranks(7)  # type: ignore[arg-type]
    with pytest.raises(BadArgumentError, match="one pass at least"):
        Ranks(RanksRun("x", 2, 1, 1, "gloo"))
