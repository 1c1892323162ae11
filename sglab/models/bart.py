"""BART: an encoder whose output the decoder attends to in every layer (cross-attention), learned positions, post-norms.

The encoder runs once per request, outside the KV pool; its keys and values for every decoder layer then lie in the
pool, in the slots that come first in the request's row. Source: the checkpoints' config.json and names.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from sglab.engine import BadArgumentError, ForwardBatch, ModelConfig
from sglab.layers import (
    ColumnParallelLinear,
    QKVParallelLinear,
    RadixAttention,
    RowParallelLinear,
    TensorParallel,
    VocabParallelEmbedding,
)
from sglab.layers.dp_attention import run_on_all_tokens
from sglab.models.causal_lm import QKV, CausalLM
from sglab.models.config import DecoderConfig

POSITION_OFFSET = 2
"""The first rows of the position table belong to no position."""


@dataclass
class BartConfig(DecoderConfig):
    aliases = {  # noqa: RUF012  (a ClassVar of the base class)
        "d_model": "hidden_size",
        "decoder_layers": "num_hidden_layers",
        "decoder_attention_heads": "num_attention_heads",
        "decoder_ffn_dim": "intermediate_size",
    }

    encoder_layers: int = 12
    encoder_attention_heads: int = 16
    encoder_ffn_dim: int = 4096
    activation_function: str = "gelu"
    scale_embedding: bool = False
    decoder_start_token_id: int = 2
    tie_word_embeddings: bool = True

    def complete(self, config: dict[str, Any]) -> None:
        super().complete(config)
        if self.activation_function != "gelu":
            remedy = "BART's MLP is another there."
            raise BadArgumentError("config.json: activation_function", "'gelu'", self.activation_function, remedy)


class SelfAttention(nn.Module):
    """q, k and v of the same tokens; `attend` is a RadixAttention, or None for an encoder's, which sees both ways."""

    def __init__(self, hidden: int, heads: int, tp: TensorParallel, layer_id: int | None = None) -> None:
        super().__init__()
        dim = hidden // heads
        self.qkv_proj = QKVParallelLinear(hidden, dim, heads, heads, bias=True, tp=tp)
        self.out_proj = RowParallelLinear(hidden, hidden, bias=True, tp=tp)
        mine = self.qkv_proj.num_heads
        self.attn = None if layer_id is None else RadixAttention(mine, dim, dim**-0.5, mine, layer_id)

    def forward(self, x: torch.Tensor, forward_batch: ForwardBatch | None = None) -> torch.Tensor:
        q, k, v = self.qkv_proj.split(self.qkv_proj(x))
        if self.attn is not None:
            assert forward_batch is not None
            return self.out_proj(self.attn(q, k, v, forward_batch))
        q, k, v = (one.unflatten(-1, (self.qkv_proj.num_heads, -1)).transpose(0, 1)[None] for one in (q, k, v))
        return self.out_proj(functional.scaled_dot_product_attention(q, k, v)[0].transpose(0, 1).flatten(1))


class CrossAttention(nn.Module):
    """q of the decoder's tokens, k and v of the encoder's: computed in the pass that runs the encoder, then cached."""

    def __init__(self, hidden: int, heads: int, tp: TensorParallel, layer_id: int) -> None:
        super().__init__()
        dim, mine = hidden // heads, tp.divide("decoder_attention_heads", heads)
        self.q_proj = ColumnParallelLinear(hidden, hidden, bias=True, tp=tp)
        self.k_proj = ColumnParallelLinear(hidden, hidden, bias=True, tp=tp)
        self.v_proj = ColumnParallelLinear(hidden, hidden, bias=True, tp=tp)
        self.out_proj = RowParallelLinear(hidden, hidden, bias=True, tp=tp)
        self.attn = RadixAttention(mine, dim, dim**-0.5, mine, layer_id, is_cross_attention=True)

    def forward(self, x: torch.Tensor, encoded: torch.Tensor | None, forward_batch: ForwardBatch) -> torch.Tensor:
        k, v = (None, None) if encoded is None else (self.k_proj(encoded), self.v_proj(encoded))
        save = encoded is not None
        return self.out_proj(self.attn(self.q_proj(x), k, v, forward_batch, save_kv_cache=save))


class BartLayer(nn.Module):
    """Sublayers, each followed by the sum with its input and a LayerNorm.

    Where groups of ranks attend apart, a decoder's MLPs run on all of them together; an encoder runs in its request's
    group alone, which therefore holds all of it.
    """

    def __init__(self, hidden: int, heads: int, size: int, tp: TensorParallel, number: int | None, layers: int) -> None:
        super().__init__()
        self.self_attn = SelfAttention(hidden, heads, tp.attention, number)
        self.self_attn_layer_norm = nn.LayerNorm(hidden)
        if number is not None:
            self.encoder_attn = CrossAttention(hidden, heads, tp.attention, layers + number)
            self.encoder_attn_layer_norm = nn.LayerNorm(hidden)
        mlp = tp.attention if number is None else tp
        self.fc1 = ColumnParallelLinear(hidden, size, bias=True, tp=mlp)
        self.fc2 = RowParallelLinear(size, hidden, bias=True, tp=mlp)
        self.final_layer_norm = nn.LayerNorm(hidden)

    def forward(
        self, x: torch.Tensor, forward_batch: ForwardBatch | None = None, encoded: torch.Tensor | None = None
    ) -> torch.Tensor:
        if forward_batch is None:
            x = self.self_attn_layer_norm(x + self.self_attn(x))
            return self.final_layer_norm(x + self.mlp(x))
        if not forward_batch.forward_mode.is_idle():
            x = self.self_attn_layer_norm(x + self.self_attn(x, forward_batch))
            x = self.encoder_attn_layer_norm(x + self.encoder_attn(x, encoded, forward_batch))
        return self.final_layer_norm(x + run_on_all_tokens(self.mlp, x, forward_batch))

    def mlp(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(functional.gelu(self.fc1(x)))


class BartStack(nn.Module):
    """An encoder or a decoder: learned positions, a norm, layers."""

    def __init__(self, config: BartConfig, tp: TensorParallel, decodes: bool) -> None:
        super().__init__()
        c = config
        heads, size, layers = (
            (c.num_attention_heads, c.intermediate_size, c.num_hidden_layers)
            if decodes
            else (c.encoder_attention_heads, c.encoder_ffn_dim, c.encoder_layers)
        )
        positions = c.max_position_embeddings + POSITION_OFFSET
        self.embed_positions = nn.Embedding(positions, c.hidden_size)
        self.layernorm_embedding = nn.LayerNorm(c.hidden_size)
        self.layers = nn.ModuleList(
            BartLayer(c.hidden_size, heads, size, tp, i if decodes else None, layers) for i in range(layers)
        )

    def start(self, embedded: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return self.layernorm_embedding(embedded + self.embed_positions(positions + POSITION_OFFSET))


class BartModel(nn.Module):
    def __init__(self, config: BartConfig, tp: TensorParallel) -> None:
        super().__init__()
        self.embed_scale = math.sqrt(config.hidden_size) if config.scale_embedding else 1.0
        self.embed_tokens = VocabParallelEmbedding(config.vocab_size, config.hidden_size, tp.attention)
        self.encoder = BartStack(config, tp, decodes=False)
        self.decoder = BartStack(config, tp, decodes=True)


class BartForConditionalGeneration(CausalLM):
    """`encode` runs the encoder; `forward` the decoder, with what it encoded in the pass that prefills a request."""

    config_class = BartConfig
    config: BartConfig
    stacked = {**QKV, "shared": ("embed_tokens", None)}  # noqa: RUF012  (a ClassVar of the base class)
    ignored_weights = ("encoder.embed_tokens.", "decoder.embed_tokens.")

    def __init__(self, config: DecoderConfig, tp: TensorParallel) -> None:
        super().__init__(config, tp)
        self.final_logits_bias = nn.Parameter(torch.zeros(1, config.vocab_size), requires_grad=False)

    def make_decoder(self) -> nn.Module:
        return BartModel(self.config, self.tp)

    def encode(self, input_ids: torch.Tensor) -> torch.Tensor:
        """One request's source tokens, int64 [tokens] -> [tokens, hidden]."""
        model = self.model
        assert isinstance(model, BartModel)
        positions = torch.arange(len(input_ids), device=input_ids.device)
        x = model.encoder.start(model.embed_tokens(input_ids) * model.embed_scale, positions)
        for layer in model.encoder.layers:
            x = layer(x)
        return x

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        forward_batch: ForwardBatch,
        encoded: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Decode.

        Args:
            input_ids, positions: int64 [tokens], of the decoder.
            encoded: [encoder tokens, hidden] of the requests whose `encoder_out_cache_loc` the batch has, one after
                another; None: of the batch's `encoder_input_ids`, and without those the pool holds all of them.

        Returns:
            [tokens, hidden].
        """
        model = self.model
        assert isinstance(model, BartModel)
        if encoded is None and forward_batch.encoder_input_ids:
            encoded = torch.cat([self.encode(source) for source in forward_batch.encoder_input_ids])
        x = model.decoder.start(model.embed_tokens(input_ids) * model.embed_scale, positions)
        for layer in model.decoder.layers:
            x = layer(x, forward_batch, encoded)
        return x

    def compute_logits(self, hidden_rows: torch.Tensor) -> torch.Tensor:
        return super().compute_logits(hidden_rows) + self.final_logits_bias.float()

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """As CausalLM's; a checkpoint without final_logits_bias has zeros."""
        given = dict(weights)
        given.setdefault("final_logits_bias", torch.zeros_like(self.final_logits_bias))
        super().load_weights(given.items())

    def attention_config(self) -> ModelConfig:
        """Twice as many layers of KV as the decoder has: its own tokens', and then the encoder's."""
        c = self.config
        return ModelConfig(
            kind="mha",
            num_attention_heads=c.num_attention_heads,
            num_key_value_heads=c.num_attention_heads,
            head_dim=c.head_dim,
            v_head_dim=c.head_dim,
            scaling=c.head_dim**-0.5,
            context_len=c.context_len,
            num_hidden_layers=2 * c.num_hidden_layers,
        )
