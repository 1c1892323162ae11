"""CausalLM: what every decoder-only model of this room is and can do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import nn

from sglab.engine import ForwardBatch, ModelConfig, StateConfig
from sglab.layers import LogitsProcessor, ParallelLMHead, TensorParallel, VocabParallelEmbedding, load_weights
from sglab.layers.dp_attention import TokenShares, rows_of_all
from sglab.layers.loading import Shard
from sglab.models.config import DecoderConfig

QKV: dict[str, tuple[str, Shard]] = {
    "q_proj": ("qkv_proj", "q"),
    "k_proj": ("qkv_proj", "k"),
    "v_proj": ("qkv_proj", "v"),
}
GATE_UP: dict[str, tuple[str, Shard]] = {"gate_proj": ("gate_up_proj", 0), "up_proj": ("gate_up_proj", 1)}


class CausalLM(nn.Module):
    """Token ids in, hidden states out; `compute_logits` turns those rows into logits that are to be sampled from.

    A subclass says which config it reads and makes `model`, the decoder; parameters have the checkpoint's names.

    Attributes:
        config: the parsed config.json.
        tp: which shard this process holds.
    """

    config_class: ClassVar[type[DecoderConfig]] = DecoderConfig
    stacked: ClassVar[dict[str, tuple[str, Shard]]] = {**QKV, **GATE_UP}
    """The checkpoint's layers that are merged here: name -> (merged layer, part)."""
    ignored_weights: ClassVar[tuple[str, ...]] = ("rotary_emb.inv_freq",)
    """What names of the checkpoint may contain to be passed over."""

    def __init__(self, config: DecoderConfig, tp: TensorParallel) -> None:
        super().__init__()
        self.config, self.tp = config, tp
        self.model = self.make_decoder()
        self.lm_head = ParallelLMHead(config.vocab_size, config.hidden_size, tp.attention)
        if config.tie_word_embeddings:
            embedding = self.model.get_submodule("embed_tokens")
            assert isinstance(embedding, VocabParallelEmbedding)
            self.lm_head.tie(embedding)
        self.logits_processor = LogitsProcessor()

    def make_decoder(self) -> nn.Module:
        """The decoder: forward(input_ids, positions, forward_batch) -> hidden; `embed_tokens` is its embedding."""
        raise NotImplementedError

    def forward(self, input_ids: torch.Tensor, positions: torch.Tensor, forward_batch: ForwardBatch) -> torch.Tensor:
        """int64 [tokens], int64 [tokens] -> [tokens, hidden], after the last norm."""
        shares: TokenShares | None = forward_batch.attn_cp_metadata
        if shares is None:
            return self.model(input_ids, positions, forward_batch)
        return rows_of_all(shares, self.model(shares.shard(input_ids), shares.shard(positions), forward_batch))

    def compute_logits(self, hidden_rows: torch.Tensor) -> torch.Tensor:
        """[rows, hidden] -> float32 [rows, vocab_size]."""
        return self.logits_processor(hidden_rows, self.lm_head)

    def attention_config(self) -> ModelConfig:
        """The attention layers' shape, from which pools and backends are made; heads of all ranks together."""
        c = self.config
        return ModelConfig(
            kind="mha",
            num_attention_heads=c.num_attention_heads,
            num_key_value_heads=c.num_key_value_heads,
            head_dim=c.head_dim,
            v_head_dim=c.head_dim,
            scaling=c.head_dim**-0.5,
            context_len=c.context_len,
            num_hidden_layers=c.num_hidden_layers,
        )

    def state_config(self) -> StateConfig | None:
        """What its linear-attention layers keep per request; None where there are none.

        A model that has a state cannot share prefixes: run it without a radix tree.
        """
        return None

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Fill the model from a checkpoint's (name, tensor) pairs.

        Raises:
            WeightError: a tensor that no layer takes, of a wrong shape, or a parameter that no tensor filled.
        """
        tied = ("lm_head.",) if self.config.tie_word_embeddings else ()
        load_weights(self, weights, self.stacked, (*self.ignored_weights, *tied))

    @property
    def device(self) -> torch.device:
        return self.lm_head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.lm_head.weight.dtype

    def extra_repr(self) -> str:
        return f"{sum(one.numel() for one in self.parameters()):,} parameters"
