"""Qwen3: Llama with an RMSNorm over each head of q and k before the rotation."""

from __future__ import annotations

from torch import nn

from sglab.layers import RMSNorm, RotaryEmbedding, TensorParallel
from sglab.models.causal_lm import CausalLM
from sglab.models.config import DecoderConfig
from sglab.models.llama import Decoder, DecoderLayer, LlamaAttention, LlamaMLP


class Qwen3Attention(LlamaAttention):
    def __init__(self, config: DecoderConfig, layer_id: int, rotary: RotaryEmbedding, tp: TensorParallel) -> None:
        super().__init__(config, layer_id, rotary, tp)
        self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)

    def head_norms(self) -> tuple[RMSNorm, RMSNorm]:
        return self.q_norm, self.k_norm


class Qwen3ForCausalLM(CausalLM):
    def make_decoder(self) -> nn.Module:
        config, tp = self.config, self.tp
        rotary = RotaryEmbedding(config.rope)

        def layer(i: int) -> nn.Module:
            mlp = LlamaMLP(config.hidden_size, config.intermediate_size, tp)
            return DecoderLayer(config, Qwen3Attention(config, i, rotary, tp), mlp)

        return Decoder(config, tp, layer)
