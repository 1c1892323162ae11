"""Qwen3 and Qwen3-MoE against transformers."""

from pathlib import Path

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


def test_qwen3(tmp_path: Path) -> None:
    check_against(*oracle("Qwen3ForCausalLM", tmp_path, {**SHAPE, "tie_word_embeddings": True}), [37, 5, 18], chunk=7)


@pytest.mark.parametrize("renormalize", [False, True])
def test_qwen3_moe(renormalize: bool, tmp_path: Path) -> None:
    moe = {"num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "norm_topk_prob": renormalize}
    config = {**SHAPE, **moe, "mlp_only_layers": [1]}
    check_against(*oracle("Qwen3MoeForCausalLM", tmp_path, config), [37, 5, 18], chunk=7)
