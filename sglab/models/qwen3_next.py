"""Qwen3-Next: three layers of Gated DeltaNet to one of gated attention, mixtures with a gated shared expert.

Source: the checkpoints' config.json and names; SGLang `models/qwen3_next.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from sglab.engine import ForwardBatch, ModelConfig, StateConfig
from sglab.layers import (
    GemmaRMSNorm,
    QKVParallelLinear,
    RadixAttention,
    ReplicatedLinear,
    RotaryEmbedding,
    RowParallelLinear,
    TensorParallel,
)
from sglab.layers.linear_attention import GatedDeltaNet
from sglab.models.causal_lm import CausalLM
from sglab.models.llama import Decoder, DecoderLayer, LlamaMLP
from sglab.models.qwen3_moe import Qwen3MoeBlock, Qwen3MoeConfig


@dataclass
class Qwen3NextConfig(Qwen3MoeConfig):
    norm_topk_prob: bool = True
    shared_expert_intermediate_size: int = 512
    linear_conv_kernel_dim: int = 4
    linear_key_head_dim: int = 128
    linear_value_head_dim: int = 128
    linear_num_key_heads: int = 16
    linear_num_value_heads: int = 32
    full_attention_interval: int = 4
    layer_types: list[str] = field(default_factory=list)
    """Per layer "linear_attention" or "full_attention" (every full_attention_interval-th, unless config.json says)."""

    def complete(self, config: dict[str, Any]) -> None:
        super().complete(config)
        interval = self.full_attention_interval
        kinds = ("linear_attention", "full_attention")
        self.layer_types = self.layer_types or [kinds[(i + 1) % interval == 0] for i in range(self.num_hidden_layers)]

    def number(self, layer: int) -> int:
        """A layer's number among those of its kind."""
        return self.layer_types[:layer].count(self.layer_types[layer])


class GatedAttention(nn.Module):
    """Attention whose output is multiplied with a sigmoid gate; norms over heads, a part of each head turned."""

    def __init__(self, config: Qwen3NextConfig, layer_id: int, rotary: RotaryEmbedding, tp: TensorParallel) -> None:
        super().__init__()
        c, self.head_dim, self.rotary = config, config.head_dim, rotary
        # q_proj gives each head its query and then its gate: twice as many heads, as far as its rows are concerned.
        self.qkv_proj = QKVParallelLinear(
            c.hidden_size, c.head_dim, 2 * c.num_attention_heads, c.num_key_value_heads, c.attention_bias, tp
        )
        self.o_proj = RowParallelLinear(c.num_attention_heads * c.head_dim, c.hidden_size, c.attention_bias, tp)
        self.q_norm = GemmaRMSNorm(c.head_dim, c.rms_norm_eps)
        self.k_norm = GemmaRMSNorm(c.head_dim, c.rms_norm_eps)
        heads = self.qkv_proj.num_heads // 2
        self.attn = RadixAttention(heads, c.head_dim, c.head_dim**-0.5, self.qkv_proj.num_kv_heads, layer_id)

    def forward(self, positions: torch.Tensor, x: torch.Tensor, forward_batch: ForwardBatch) -> torch.Tensor:
        q_gate, k, v = self.qkv_proj.split(self.qkv_proj(x))
        q, gate = q_gate.unflatten(-1, (-1, 2 * self.head_dim)).chunk(2, -1)
        k, v = (one.unflatten(-1, (-1, self.head_dim)) for one in (k, v))
        q, k = self.rotary(positions, self.q_norm(q), self.k_norm(k))
        return self.o_proj(self.attn(q, k, v, forward_batch) * torch.sigmoid(gate).flatten(1))


class Qwen3NextBlock(Qwen3MoeBlock):
    """The mixture, and a shared expert with a gate of its own."""

    def __init__(self, config: Qwen3NextConfig, tp: TensorParallel) -> None:
        super().__init__(config, tp)
        size = config.shared_expert_intermediate_size
        self.shared_expert = LlamaMLP(config.hidden_size, size, tp.shared_experts, reduce_results=False)
        self.shared_expert_gate = ReplicatedLinear(config.hidden_size, 1)

    def shared(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.shared_expert_gate(x)) * self.shared_expert(x)


class Qwen3NextForCausalLM(CausalLM):
    config_class = Qwen3NextConfig
    config: Qwen3NextConfig
    stacked = {**CausalLM.stacked, "linear_attn": ("self_attn", None)}  # noqa: RUF012  (a ClassVar of the base class)
    ignored_weights = (*CausalLM.ignored_weights, "mtp.")

    def make_decoder(self) -> nn.Module:
        config, tp = self.config, self.tp
        rotary = RotaryEmbedding(config.rope)

        def mixer(i: int) -> nn.Module:
            if config.layer_types[i] == "full_attention":
                return GatedAttention(config, config.number(i), rotary, tp)
            return GatedDeltaNet(
                config.hidden_size,
                config.linear_num_key_heads,
                config.linear_num_value_heads,
                config.linear_key_head_dim,
                config.linear_value_head_dim,
                config.linear_conv_kernel_dim,
                config.rms_norm_eps,
                config.number(i),
                tp,
            )

        def layer(i: int) -> nn.Module:
            dense = LlamaMLP(config.hidden_size, config.intermediate_size, tp) if not config.is_moe(i) else None
            return DecoderLayer(config, mixer(i), dense or Qwen3NextBlock(config, tp), GemmaRMSNorm)

        return Decoder(config, tp, layer, GemmaRMSNorm)

    def attention_config(self) -> ModelConfig:
        return replace(super().attention_config(), num_hidden_layers=self.config.layer_types.count("full_attention"))

    def state_config(self) -> StateConfig:
        c, tp = self.config, self.tp
        keys, values = (
            c.linear_num_key_heads * c.linear_key_head_dim,
            c.linear_num_value_heads * c.linear_value_head_dim,
        )
        return StateConfig(
            c.layer_types.count("linear_attention"),
            ((2 * keys + values) // tp.size, c.linear_conv_kernel_dim - 1),
            (c.linear_num_value_heads // tp.size, c.linear_key_head_dim, c.linear_value_head_dim),
        )
