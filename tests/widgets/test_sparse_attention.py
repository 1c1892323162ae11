"""SparseAttention: its columns are the comparison's, what its command changes, and what it refuses."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sglab.attention.sparse.choices import RULES, Rows
from sglab.attention.sparse.comparison import Outcome, budgets, compare
from sglab.engine import BadArgumentError
from sglab.models import from_config
from sglab.models.deepseek import DeepseekV2ForCausalLM
from sglab.serving.execution import torch_threads
from sglab.widgets import SparseAttention, sparse_attention
from sglab.workbench import AttentionRun, record_attention
from tests.support.gpt_oss import SHAPE as GPT_OSS

PROMPT = "A little cat sat."


@cache
def run() -> AttentionRun:
    return record_attention(PROMPT, layers=[0, 2])


@cache
def shown() -> SparseAttention:
    return SparseAttention(run(), layer=1)


def test_tensors_are_what_was_compared() -> None:
    widget, rows = shown(), run().layers[1]
    tensors = {name: tensor.array for name, tensor in widget._tensors.items()}
    assert widget.budgets == budgets(rows.tokens) and widget.texts == run().texts
    assert np.allclose(tensors["probabilities"], rows.probabilities().numpy(), atol=1e-6)
    for told in widget.rules:
        name = told["name"]
        for step, each in enumerate(compare(rows, name)):
            assert np.array_equal((tensors[f"{name}.chosen"] >> step) & 1, each.mask.numpy())
            assert np.allclose(tensors[f"{name}.error"][step], each.error.numpy(), atol=1e-6)
            assert np.allclose(tensors[f"{name}.mass"][step], each.mass.numpy(), atol=1e-6)
            assert told["error"][step] == pytest.approx(each.total_error)
            assert told["keys"][step] == pytest.approx(float(each.keys.double().mean()))
    assert [told["name"] for told in widget.rules] == list(RULES)


def test_a_layer_has_the_number_that_the_model_gives_it() -> None:
    assert run().numbers == shown().shown["numbers"] == [0, 2]
    assert "layer 2 ·" in shown().header["subject"]
    one = record_attention([1, 2, 3], layers=[3])
    assert SparseAttention(one).header["subject"] == "tiny, layer 3 · 3 tokens, 1 layer of 4 heads"


def test_layers_with_another_softmax_are_refused() -> None:
    """Of rows without windows and sinks, "dense" would be what no layer of the model computes."""
    model = from_config({"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", **GPT_OSS})
    with pytest.raises(BadArgumentError, match="layer 0 with sinks and a window of 9 keys"):
        record_attention([1, 2, 3], model)
    with pytest.raises(BadArgumentError, match="layer 1 with sinks\\."):
        record_attention([1, 2, 3], model, layers=[1])


def test_another_layer_is_shown_and_a_wrong_one_refused() -> None:
    widget = SparseAttention(run())
    revision = widget.revision
    assert widget.show(1) == revision + 1 and widget.shown["layer"] == 1
    before = (widget.revision, widget.shown)
    for wrong in (2, -1, True, "1", None):
        with pytest.raises(BadArgumentError, match="layer"):
            widget.show(wrong)  # type: ignore[arg-type]
    assert (widget.revision, widget.shown) == before


def test_what_it_cannot_show_is_refused_by_name() -> None:
    with pytest.raises(BadArgumentError, match="run: expected what sglab"):
        SparseAttention(7)  # type: ignore[arg-type]
    with pytest.raises(BadArgumentError, match="layer"):
        SparseAttention(run(), layer=5)


def test_a_saved_page_has_every_rule() -> None:
    saved = shown().saved()
    assert {f"{name}.{part}" for name in RULES for part in ("chosen", "error", "mass")} < set(saved["tensors"])


def test_a_small_model_reads_the_prompt_once_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads that wait for each other took 40 s under load for what one does in 4."""
    passes: list[int] = []
    compared: list[int] = []
    forward = DeepseekV2ForCausalLM.forward

    def counted(self: DeepseekV2ForCausalLM, *args: Any, **kwargs: Any) -> Any:
        passes.append(torch.get_num_threads())
        return forward(self, *args, **kwargs)

    def watched(rows: Rows, rule: str) -> list[Outcome]:
        compared.append(torch.get_num_threads())
        return compare(rows, rule)

    monkeypatch.setattr(DeepseekV2ForCausalLM, "forward", counted)
    monkeypatch.setattr(sparse_attention, "compare", watched)
    with torch_threads(2):
        SparseAttention(PROMPT)
        assert torch.get_num_threads() == 2
    assert passes == [1] and compared == [1] * len(RULES)
