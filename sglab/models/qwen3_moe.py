"""Qwen3-MoE: Qwen3 whose MLP is a mixture of experts, softmax-routed."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from sglab.layers import RotaryEmbedding, TensorParallel
from sglab.layers.moe import FusedMoE, Gate, Mixture, Routing, TopK
from sglab.models.causal_lm import CausalLM
from sglab.models.config import DecoderConfig
from sglab.models.llama import Decoder, DecoderLayer, LlamaMLP
from sglab.models.qwen3 import Qwen3Attention


@dataclass
class Qwen3MoeConfig(DecoderConfig):
    aliases = {"num_local_experts": "num_experts"}  # noqa: RUF012  (a ClassVar of the base class)

    num_experts: int = 128
    num_experts_per_tok: int = 8
    moe_intermediate_size: int = 768
    norm_topk_prob: bool = False
    decoder_sparse_step: int = 1
    """Every so many layers are mixtures."""
    mlp_only_layers: list[int] = field(default_factory=list)

    def is_moe(self, layer: int) -> bool:
        return layer not in self.mlp_only_layers and (layer + 1) % self.decoder_sparse_step == 0


class Qwen3MoeBlock(Mixture):
    def __init__(self, config: Qwen3MoeConfig, tp: TensorParallel) -> None:
        super().__init__()
        self.tp = tp
        self.gate = Gate(config.hidden_size, config.num_experts)
        self.topk = TopK(config.num_experts_per_tok, renormalize=config.norm_topk_prob)
        self.experts = FusedMoE(config.num_experts, config.hidden_size, config.moe_intermediate_size, tp)

    def route(self, x: torch.Tensor) -> Routing:
        return self.topk(self.gate(x))


class Qwen3MoeForCausalLM(CausalLM):
    config_class = Qwen3MoeConfig
    config: Qwen3MoeConfig

    def make_decoder(self) -> nn.Module:
        config, tp = self.config, self.tp
        rotary = RotaryEmbedding(config.rope)

        def layer(i: int) -> nn.Module:
            dense = LlamaMLP(config.hidden_size, config.intermediate_size, tp) if not config.is_moe(i) else None
            return DecoderLayer(config, Qwen3Attention(config, i, rotary, tp), dense or Qwen3MoeBlock(config, tp))

        return Decoder(config, tp, layer)
