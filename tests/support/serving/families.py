"""Small models of other kinds than Llama, with random weights."""

from __future__ import annotations

from typing import Any

import torch

from sglab.models import CausalLM, from_config

COMMON = {"vocab_size": 64, "hidden_size": 48, "intermediate_size": 80, "max_position_embeddings": 256}
MOE = {"num_experts_per_tok": 3, "moe_intermediate_size": 24}
FAMILIES: dict[str, dict[str, Any]] = {
    "Qwen3ForCausalLM": {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16},
    "DeepseekV2ForCausalLM": {
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "kv_lora_rank": 32,
        "qk_nope_head_dim": 24,
        "qk_rope_head_dim": 16,
        "v_head_dim": 20,
        "first_k_dense_replace": 1,
        "n_routed_experts": 8,
        "n_shared_experts": 2,
        "q_lora_rank": None,
        "topk_method": "greedy",
        **MOE,
    },
    "GptOssForCausalLM": {
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_local_experts": 6,
        "num_experts_per_tok": 2,
        "sliding_window": 5,
    },
    "Qwen3NextForCausalLM": {
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 12,
        "linear_value_head_dim": 20,
        "num_experts": 6,
        "shared_expert_intermediate_size": 40,
        "mlp_only_layers": [1],
        "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"],
        **MOE,
    },
}


def model(name: str) -> CausalLM:
    made = from_config({**COMMON, **FAMILIES[name], "architectures": [name]}, "float32", "cpu", 1)
    with torch.no_grad():
        for key, parameter in made.named_parameters():
            if parameter.dim() > 1 and "norm" not in key:
                parameter *= 8
    return made
