"""Llama 3.x: grouped-query attention, rotary positions under any scaling, a gated MLP, pre-norms.

Source: the checkpoints' config.json and names; SGLang `models/llama.py` for the order of fused norms.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from sglab.engine import ForwardBatch
from sglab.layers import (
    MergedColumnParallelLinear,
    QKVParallelLinear,
    RadixAttention,
    RMSNorm,
    RotaryEmbedding,
    RowParallelLinear,
    SiluAndMul,
    TensorParallel,
    VocabParallelEmbedding,
    qkv,
)
from sglab.layers.dp_attention import run_on_all_tokens
from sglab.models.causal_lm import CausalLM
from sglab.models.config import DecoderConfig


class LlamaMLP(nn.Module):
    """down(silu(gate(x)) · up(x))."""

    def __init__(
        self,
        hidden_size: int,
        intermediate_size: int,
        tp: TensorParallel,
        bias: bool = False,
        reduce_results: bool = True,
    ) -> None:
        super().__init__()
        self.gate_up_proj = MergedColumnParallelLinear(hidden_size, [intermediate_size] * 2, bias, tp)
        self.down_proj = RowParallelLinear(intermediate_size, hidden_size, bias, tp, reduce_results)
        self.act_fn = SiluAndMul()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(self.act_fn(self.gate_up_proj(x)))


class LlamaAttention(nn.Module):
    """Projections and rotation around the layer that attends over the KV pool."""

    def __init__(self, config: DecoderConfig, layer_id: int, rotary: RotaryEmbedding, tp: TensorParallel) -> None:
        super().__init__()
        c, tp = config, tp.attention
        self.head_dim, self.rotary = c.head_dim, rotary
        self.qkv_proj = QKVParallelLinear(
            c.hidden_size, c.head_dim, c.num_attention_heads, c.num_key_value_heads, c.attention_bias, tp
        )
        self.o_proj = RowParallelLinear(c.num_attention_heads * c.head_dim, c.hidden_size, c.attention_bias, tp)
        self.attn = RadixAttention(
            self.qkv_proj.num_heads, c.head_dim, c.head_dim**-0.5, self.qkv_proj.num_kv_heads, layer_id
        )

    def head_norms(self) -> tuple[RMSNorm, RMSNorm] | None:
        """Norms over each head of q and of k, before the rotation."""
        return None

    def forward(self, positions: torch.Tensor, x: torch.Tensor, forward_batch: ForwardBatch) -> torch.Tensor:
        return self.o_proj(self.attend(positions, x, forward_batch))

    def attend(
        self, positions: torch.Tensor, x: torch.Tensor, forward_batch: ForwardBatch, sinks: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[tokens, hidden] -> [tokens, heads · head_dim], before the last projection."""
        proj, tokens, dim = self.qkv_proj, x.shape[0], self.head_dim
        q, k, v = proj.split(proj(x))
        q = q.view(tokens, proj.num_heads, dim)
        k, v = (each.view(tokens, proj.num_kv_heads, dim) for each in (k, v))
        norms, joined = self.head_norms(), qkv.joins(q, forward_batch)
        if joined:
            layer = self.attn.shape.layer_id
            qkv.norm_turn_and_store(positions, (q, k, v), self.rotary, norms, layer, forward_batch)
        else:
            q, k = (q, k) if norms is None else (norms[0](q), norms[1](k))
            q, k = self.rotary(positions, q, k)
        return self.attn(q, k, v, forward_batch, save_kv_cache=not joined, sinks=sinks)


class DecoderLayer(nn.Module):
    """Attention and MLP, each after a norm that first adds what came before to the residual stream."""

    def __init__(
        self, config: DecoderConfig, attention: nn.Module, mlp: nn.Module, norm: type[RMSNorm] = RMSNorm
    ) -> None:
        super().__init__()
        self.self_attn, self.mlp = attention, mlp
        self.input_layernorm = norm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = norm(config.hidden_size, config.rms_norm_eps)

    def forward(
        self,
        positions: torch.Tensor,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        forward_batch: ForwardBatch,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """x: the sublayer's output before this layer; residual: the sum of all before it, None in the first layer."""
        if residual is None:
            x, residual = self.input_layernorm(x), x
        else:
            x, residual = self.input_layernorm(x, residual)
        if not forward_batch.forward_mode.is_idle():
            x = self.self_attn(positions, x, forward_batch)
        x, residual = self.post_attention_layernorm(x, residual)
        return run_on_all_tokens(self.mlp, x, forward_batch), residual


class Decoder(nn.Module):
    """Embedding, layers, last norm. `make_layer` makes one by its number."""

    def __init__(
        self,
        config: DecoderConfig,
        tp: TensorParallel,
        make_layer: Callable[[int], nn.Module],
        norm: type[RMSNorm] = RMSNorm,
    ) -> None:
        super().__init__()
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size, tp.attention)
        self.layers = nn.ModuleList(make_layer(i) for i in range(config.num_hidden_layers))
        self.norm = norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor, forward_batch: ForwardBatch) -> torch.Tensor:
        x, residual = self.embed_tokens(input_ids), None
        for layer in self.layers:
            x, residual = layer(positions, x, residual, forward_batch)
        return self.norm(x, residual)[0]


class LlamaForCausalLM(CausalLM):
    """Llama 2 and 3.x, and what shares their checkpoint's form."""

    def make_decoder(self) -> nn.Module:
        config, tp = self.config, self.tp
        rotary = RotaryEmbedding(config.rope)

        def layer(i: int) -> nn.Module:
            mlp = LlamaMLP(config.hidden_size, config.intermediate_size, tp, config.mlp_bias)
            return DecoderLayer(config, LlamaAttention(config, i, rotary, tp), mlp)

        return Decoder(config, tp, layer)
