"""Small configurations of three families, and random weights for them under the checkpoints' names."""

from __future__ import annotations

from typing import Any

import torch

from sglab.models import from_config

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
QWEN3_MOE = {
    **LLAMA,
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
}
DEEPSEEK = {
    **LLAMA,
    "architectures": ["DeepseekV3ForCausalLM"],
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_group": 1,
    "topk_group": 1,
}


def drawn(config: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Random weights under the checkpoint's names."""
    tensors, model = {}, from_config(config)
    for name, tensor in model.state_dict().items():
        layer, _, last = name.rpartition(".")
        around, _, merged = layer.rpartition(".")
        if merged == "qkv_proj":
            sizes = [config["num_attention_heads"] * 16, *[config["num_key_value_heads"] * 16] * 2]
            parts = zip(("q_proj", "k_proj", "v_proj"), tensor.split(sizes), strict=True)
            tensors |= {f"{around}.{part}.weight": one for part, one in parts}
        elif merged == "gate_up_proj":
            gate, up = tensor.chunk(2)
            tensors |= {f"{around}.gate_proj.weight": gate, f"{around}.up_proj.weight": up}
        elif last in ("w13", "w2"):
            for e, one in enumerate(tensor):
                named = (
                    zip(("gate_proj", "up_proj"), one.chunk(2), strict=True) if last == "w13" else (("down_proj", one),)
                )
                tensors |= {f"{layer}.{e}.{part}.weight": each for part, each in named}
        else:
            tensors[name] = tensor[: config["vocab_size"]] if "embed_tokens" in name or "lm_head" in name else tensor
    return {name: torch.randn_like(one) * (0.2 if one.dim() > 1 else 1) for name, one in tensors.items()}


def linear_layers(name: str) -> bool:
    return not any(part in name for part in ("embed_tokens", "lm_head", ".gate", "norm")) or "gate_proj" in name


def with_draft_layer(config: dict[str, Any]) -> dict[str, torch.Tensor]:
    """A checkpoint whose draft layer is drawn as its last one is."""
    tensors, layers, hidden = drawn(config), config["num_hidden_layers"], config["hidden_size"]
    last, prefix = f"model.layers.{layers - 1}.", f"model.layers.{layers}."
    again = {name: tensor for name, tensor in drawn(config).items() if name.startswith(last)}
    tensors |= {prefix + name.removeprefix(last): tensor for name, tensor in again.items()}
    norms = {f"{prefix}{name}.weight": torch.ones(hidden) for name in ("enorm", "hnorm", "shared_head.norm")}
    return tensors | norms | {f"{prefix}eh_proj.weight": torch.randn(hidden, 2 * hidden) * 0.1}
