"""DeepSeek-V2 and -V3: multi-head latent attention, and mixtures with shared experts after a few dense layers.

Source: the checkpoints' config.json and names; SGLang `models/deepseek_v2.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from sglab.engine import ForwardBatch, ModelConfig
from sglab.layers import (
    ColumnParallelLinear,
    ReplicatedLinear,
    RMSNorm,
    RotaryEmbedding,
    RowParallelLinear,
    TensorParallel,
)
from sglab.layers.mla import MLAttention
from sglab.layers.moe import FusedMoE, Gate, Mixture, Routing, TopK
from sglab.layers.rotary import yarn_get_mscale
from sglab.models.causal_lm import GATE_UP, CausalLM
from sglab.models.config import DecoderConfig
from sglab.models.llama import Decoder, DecoderLayer, LlamaMLP


@dataclass
class DeepseekConfig(DecoderConfig):
    kv_lora_rank: int = 512
    q_lora_rank: int | None = None
    """None: q is projected in one step."""
    qk_nope_head_dim: int = 128
    qk_rope_head_dim: int = 64
    v_head_dim: int = 128
    rope_interleave: bool = True
    n_routed_experts: int | None = None
    """None: no mixture in any layer."""
    n_shared_experts: int = 0
    num_experts_per_tok: int = 8
    moe_intermediate_size: int = 0
    moe_layer_freq: int = 1
    first_k_dense_replace: int = 0
    n_group: int = 1
    topk_group: int = 1
    topk_method: str = "greedy"
    """"greedy", "group_limited_greedy" or "noaux_tc" (groups, with a correction bias)."""
    scoring_func: str = "softmax"
    norm_topk_prob: bool = False
    routed_scaling_factor: float = 1.0

    def is_moe(self, layer: int) -> bool:
        return bool(self.n_routed_experts) and layer >= self.first_k_dense_replace and layer % self.moe_layer_freq == 0

    @property
    def rotary_head_dim(self) -> int:
        return self.qk_rope_head_dim

    @property
    def softmax_scale(self) -> float:
        """(nope + rope)^-½, the dims that the scores stand for, not the latent's; under YaRN times mscale²."""
        scale = (self.qk_nope_head_dim + self.qk_rope_head_dim) ** -0.5
        given = self.rope.parameters
        if self.rope.scaling == "default" or not given.get("mscale_all_dim"):
            return scale
        return scale * yarn_get_mscale(given["factor"], given["mscale_all_dim"]) ** 2


@dataclass
class DeepseekV3Config(DeepseekConfig):
    topk_method: str = "noaux_tc"
    scoring_func: str = "sigmoid"
    norm_topk_prob: bool = True
    routed_scaling_factor: float = 2.5


class DeepseekAttention(nn.Module):
    """Low-rank projections of q and of keys and values, the rotation of their rotary parts, and MLA."""

    def __init__(self, config: DeepseekConfig, layer_id: int, rotary: RotaryEmbedding, tp: TensorParallel) -> None:
        super().__init__()
        c, hidden, tp = config, config.hidden_size, tp.attention
        heads = tp.divide("num_attention_heads", c.num_attention_heads)
        self.nope, self.rope, self.rank, self.rotary = c.qk_nope_head_dim, c.qk_rope_head_dim, c.kv_lora_rank, rotary
        q_size = c.num_attention_heads * (self.nope + self.rope)
        if c.q_lora_rank is None:
            self.q_proj = ColumnParallelLinear(hidden, q_size, tp=tp)
        else:
            self.q_a_proj = ReplicatedLinear(hidden, c.q_lora_rank, c.attention_bias)
            self.q_a_layernorm = RMSNorm(c.q_lora_rank, c.rms_norm_eps)
            self.q_b_proj = ColumnParallelLinear(c.q_lora_rank, q_size, tp=tp)
        self.kv_a_proj_with_mqa = ReplicatedLinear(hidden, self.rank + self.rope, c.attention_bias)
        self.kv_a_layernorm = RMSNorm(self.rank, c.rms_norm_eps)
        self.kv_b_proj = ColumnParallelLinear(self.rank, c.num_attention_heads * (self.nope + c.v_head_dim), tp=tp)
        self.o_proj = RowParallelLinear(c.num_attention_heads * c.v_head_dim, hidden, c.attention_bias, tp)
        self.mla = MLAttention(self.kv_b_proj, heads, self.nope, self.rope, c.v_head_dim, c.softmax_scale, layer_id)

    def forward(self, positions: torch.Tensor, x: torch.Tensor, forward_batch: ForwardBatch) -> torch.Tensor:
        low_rank = self.q_a_layernorm(self.q_a_proj(x)) if hasattr(self, "q_a_proj") else x
        q = (self.q_b_proj if hasattr(self, "q_b_proj") else self.q_proj)(low_rank)
        q_nope, q_rope = q.unflatten(-1, (-1, self.nope + self.rope)).split([self.nope, self.rope], -1)
        latent, k_rope = self.kv_a_proj_with_mqa(x)[:, None].split([self.rank, self.rope], -1)
        q_rope, k_rope = self.rotary(positions, q_rope, k_rope)
        chosen = self.topk_indices(positions, x, low_rank, forward_batch)
        return self.o_proj(self.mla(q_nope, q_rope, self.kv_a_layernorm(latent), k_rope, forward_batch, chosen))

    def topk_indices(
        self, positions: torch.Tensor, x: torch.Tensor, low_rank: torch.Tensor, forward_batch: ForwardBatch
    ) -> torch.Tensor | None:
        """int32 [tokens, topk], positions that each token attends to; None: all."""
        return None


class DeepseekMoE(Mixture):
    """Routed experts and shared ones, which every token goes through."""

    def __init__(self, config: DeepseekConfig, tp: TensorParallel) -> None:
        super().__init__()
        c, self.tp = config, tp
        assert c.n_routed_experts is not None
        biased = c.topk_method == "noaux_tc"
        self.gate = Gate(c.hidden_size, c.n_routed_experts, correction_bias=biased, in_float32=True)
        grouped = c.topk_method != "greedy"
        self.topk = TopK(
            c.num_experts_per_tok,
            "sigmoid" if c.scoring_func == "sigmoid" else "softmax",
            c.norm_topk_prob,
            c.n_group if grouped else 0,
            c.topk_group if grouped else 0,
            c.routed_scaling_factor,
        )
        self.experts = FusedMoE(c.n_routed_experts, c.hidden_size, c.moe_intermediate_size, tp)
        shared = c.n_shared_experts * c.moe_intermediate_size
        self.shared_experts = (
            LlamaMLP(c.hidden_size, shared, tp.shared_experts, reduce_results=False) if shared else None
        )

    def route(self, x: torch.Tensor) -> Routing:
        return self.topk(self.gate(x), self.gate.e_score_correction_bias)

    def shared(self, x: torch.Tensor) -> torch.Tensor | None:
        return None if self.shared_experts is None else self.shared_experts(x)


class DeepseekV2ForCausalLM(CausalLM):
    attention_class: ClassVar[type[DeepseekAttention]] = DeepseekAttention
    config_class: ClassVar[type[DeepseekConfig]] = DeepseekConfig
    config: DeepseekConfig
    stacked = GATE_UP

    def make_decoder(self) -> nn.Module:
        config, tp = self.config, self.tp
        rotary = RotaryEmbedding(config.rope, is_neox_style=not config.rope_interleave)

        def layer(i: int) -> nn.Module:
            dense = LlamaMLP(config.hidden_size, config.intermediate_size, tp) if not config.is_moe(i) else None
            attention = self.attention_class(config, i, rotary, tp)
            return DecoderLayer(config, attention, dense or DeepseekMoE(config, tp))

        return Decoder(config, tp, layer)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """As CausalLM's; the layer after the last one is the draft's (`deepseek_mtp.py`), and passed over."""
        draft = f"model.layers.{self.config.num_hidden_layers}."
        super().load_weights((name, tensor) for name, tensor in weights if not name.startswith(draft))

    def attention_config(self) -> ModelConfig:
        c = self.config
        return ModelConfig(
            kind="mla",
            num_attention_heads=c.num_attention_heads,
            num_key_value_heads=1,
            head_dim=c.kv_lora_rank + c.qk_rope_head_dim,
            v_head_dim=c.kv_lora_rank,
            scaling=c.softmax_scale,
            context_len=c.context_len,
            kv_lora_rank=c.kv_lora_rank,
            qk_rope_head_dim=c.qk_rope_head_dim,
            num_hidden_layers=c.num_hidden_layers,
        )


class DeepseekV3ForCausalLM(DeepseekV2ForCausalLM):
    config_class = DeepseekV3Config
