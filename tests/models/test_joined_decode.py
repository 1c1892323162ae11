"""Decodes whose norms, rotation and KV rows are one operator, as on a GPU, against transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch

from sglab.engine import ForwardBatch
from sglab.kernels import record_choices
from sglab.layers import qkv
from tests.support.models import check_against, oracle

SHAPE = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
}


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def joins(q: torch.Tensor, forward_batch: ForwardBatch) -> bool:
        assert not qkv_joins(q, forward_batch)  # for want of a GPU alone
        return forward_batch.forward_mode.is_decode()

    qkv_joins = qkv.joins
    monkeypatch.setattr(qkv, "joins", joins)


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("backend", ["torch_native", "triton"])
@pytest.mark.parametrize("architecture", ["Qwen3ForCausalLM", "LlamaForCausalLM"])
def test_logits(architecture: str, backend: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {} if backend == "torch_native" else {"backend": "triton", "implementation": "reference"}
    with record_choices() as choices:
        check_against(*oracle(architecture, tmp_path, SHAPE), [37, 5, 18], chunk=7, count=6, **options)
    joined = [choice for choice in choices if choice.operator == "qk_norm_rope_store"]
    assert joined
    assert len(joined) % SHAPE["num_hidden_layers"] == 0
