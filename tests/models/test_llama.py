"""Llama against transformers: logits of prefill, chunked prefill and decode, and greedy tokens, under every scaling."""

from pathlib import Path
from typing import Any

import pytest

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
SCALINGS: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 64},
    "longrope": {
        "factor": 4.0,
        "original_max_position_embeddings": 256,
        "short_factor": [1.0, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0, 2.5],
        "long_factor": [2.0, 2.1, 2.2, 2.3, 2.5, 2.7, 3.0, 3.5],
    },
}


@pytest.mark.parametrize("scaling", SCALINGS)
def test_every_rope_scaling(scaling: str, tmp_path: Path) -> None:
    rope = {"rope_type": scaling, "rope_theta": 500.0, **SCALINGS[scaling]}
    theirs, ours = oracle("LlamaForCausalLM", tmp_path, {**SHAPE, "rope_parameters": rope})
    check_against(theirs, ours, [37, 5, 18], chunk=7)


def test_tied_embeddings_and_biases(tmp_path: Path) -> None:
    config = {**SHAPE, "tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}
    theirs, ours = oracle("LlamaForCausalLM", tmp_path, config)
    check_against(theirs, ours, [21, 1], chunk=8)
