"""Qwen3-Next against transformers: recurrent and chunked Gated DeltaNet, states across any cut of a prompt."""

from pathlib import Path

from tests.support.models import check_against, oracle

SHAPE = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 12,
    "linear_value_head_dim": 20,
    "num_experts": 6,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 24,
    "shared_expert_intermediate_size": 40,
    "mlp_only_layers": [1],
    "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"],
}


def test_qwen3_next(tmp_path: Path) -> None:
    check_against(*oracle("Qwen3NextForCausalLM", tmp_path, SHAPE), [80, 2, 18], chunk=7)


def test_one_value_head_per_key_head(tmp_path: Path) -> None:
    config = {**SHAPE, "linear_num_value_heads": 2, "layer_types": ["linear_attention", "full_attention"]}
    config |= {"num_hidden_layers": 2, "mlp_only_layers": []}
    check_against(*oracle("Qwen3NextForCausalLM", tmp_path, config), [20, 3], chunk=7, count=12)
