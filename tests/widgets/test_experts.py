"""Experts: its columns are the recorded run's, what its commands change, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from sglab.engine import BadArgumentError
from sglab.widgets import Experts, KernelDebugger
from sglab.workbench import RoutingRun
from tests.support.browser.every_widget import routing


def column(widget: Experts, name: str) -> np.ndarray:
    return widget._tensors[name].array


def test_columns_are_those_of_the_pass_and_layer_shown() -> None:
    run = routing()
    widget = Experts(run, step=1, layer=2, block_size=4)
    routed = run.passes[1].layers[2]
    assert widget.routed is routed
    assert np.array_equal(column(widget, "ids"), routed.ids.numpy())
    assert np.array_equal(column(widget, "logits"), routed.logits.numpy())
    assert np.array_equal(column(widget, "tokens")[:, 0], run.passes[1].tokens.numpy())
    post_pad = int(column(widget, "num_tokens_post_pad")[0])
    assert len(column(widget, "sorted_token_ids")) == post_pad == 4 * len(column(widget, "expert_ids"))
    assert np.array_equal(column(widget, "load"), run.load.numpy())
    assert len(column(widget, "eplb.physical")) == widget.rule["experts"] + 2


def test_show_changes_what_is_asked_and_a_refused_call_nothing() -> None:
    widget = Experts(routing())
    revision = widget.show(step=2, block=32)
    assert revision == widget.revision and widget.shown == {
        "step": 2, "layer": 0, "ranks": 2, "redundant": 2, "block": 32,
    }  # fmt: skip
    assert widget.show(ranks=4, redundant=4) > revision
    before = (widget.revision, dict(widget.shown))
    for wrong in ({"step": 99}, {"layer": -1}, {"ranks": 3}, {"redundant": 3}, {"block": 0}, {"step": "x"}):
        with pytest.raises(BadArgumentError):
            widget.show(**wrong)
    assert (widget.revision, dict(widget.shown)) == before


def test_the_kernel_of_the_shown_layer_opens_in_a_debugger() -> None:
    widget = Experts(routing(), step=1)
    debugger = widget.kernel_debugger()
    assert isinstance(debugger, KernelDebugger)
    assert debugger.session.launch.kernel.name == "fused_moe_kernel"
    debugger.session.step()


def test_what_it_cannot_show_is_refused_by_name() -> None:
    with pytest.raises(BadArgumentError, match="run: expected what sglab"):
        Experts(7)  # type: ignore[arg-type]
    with pytest.raises(BadArgumentError, match="one pass at least"):
        Experts(RoutingRun("tiny", routing().mixtures))
    with pytest.raises(BadArgumentError, match="step"):
        Experts(routing(), step=1000)
