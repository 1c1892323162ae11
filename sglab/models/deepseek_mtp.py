"""DeepSeek's multi-token prediction: a layer that drafts the token after next from the target's hidden states.

The layer lies in the target's checkpoint, as layer num_hidden_layers. Its input is a token and the target's hidden
state at the token before; its embedding and its head are the target's. The layer is whole, also where the target is one
rank's shard: it drafts on one rank, which then has a whole embedding and head for it. Source: the DeepSeek-V3 report,
section 2.2; SGLang `models/deepseek_nextn.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from sglab.engine import BadArgumentError, ForwardBatch, ModelConfig
from sglab.layers import (
    SINGLE,
    LogitsProcessor,
    ParallelLMHead,
    ReplicatedLinear,
    RMSNorm,
    RotaryEmbedding,
    VocabParallelEmbedding,
    load_weights,
)
from sglab.models.deepseek import DeepseekAttention, DeepseekMoE, DeepseekV2ForCausalLM
from sglab.models.llama import DecoderLayer, LlamaMLP
from sglab.models.loader import checkpoint, model_folder


class DeepseekMTP(nn.Module):
    """The draft model of a target; it has one layer, and so one layer of a KV pool of its own.

    Attributes:
        target: whose rotary table it uses, and embedding and head where they are whole; not a part of it.
        embed_tokens, lm_head: its own where the target's are cut; None: the target's are used.
    """

    def __init__(self, target: DeepseekV2ForCausalLM) -> None:
        super().__init__()
        config, tp = target.config, SINGLE
        self.config, self.tp, self._shared = config, tp, [target]
        hidden, eps, number = config.hidden_size, config.rms_norm_eps, config.num_hidden_layers
        self.enorm, self.hnorm, self.norm = RMSNorm(hidden, eps), RMSNorm(hidden, eps), RMSNorm(hidden, eps)
        self.eh_proj = ReplicatedLinear(2 * hidden, hidden)
        rotary = RotaryEmbedding(config.rope, is_neox_style=not config.rope_interleave)
        moe = config.is_moe(number)
        mlp = DeepseekMoE(config, tp) if moe else LlamaMLP(hidden, config.intermediate_size, tp)
        self.decoder = DecoderLayer(config, DeepseekAttention(config, 0, rotary, tp), mlp)
        self.embed_tokens: VocabParallelEmbedding | None = None
        self.lm_head: ParallelLMHead | None = None
        if target.tp.attention.size > 1:
            self.embed_tokens = VocabParallelEmbedding(config.vocab_size, hidden)
            self.lm_head = ParallelLMHead(config.vocab_size, hidden)
            if config.tie_word_embeddings:
                self.lm_head.tie(self.embed_tokens)
            self.logits_processor = LogitsProcessor()

    @property
    def target(self) -> DeepseekV2ForCausalLM:
        return self._shared[0]

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        forward_batch: ForwardBatch,
        hidden_states: torch.Tensor,
    ) -> torch.Tensor:
        """Draft.

        Args:
            input_ids: int64 [tokens].
            positions: int64 [tokens], of the hidden states or of the tokens: only distances count.
            forward_batch: over the draft's own pool.
            hidden_states: [tokens, hidden], the target's output (or this model's, to draft further) at the token
                before each of `input_ids`.

        Returns:
            [tokens, hidden].
        """
        embed_tokens = self.embed_tokens or self.target.model.get_submodule("embed_tokens")
        embedded = embed_tokens(input_ids)
        joined = self.eh_proj(torch.cat((self.enorm(embedded), self.hnorm(hidden_states)), -1))
        x, residual = self.decoder(positions, joined, None, forward_batch)
        return self.norm(x, residual)[0]

    def compute_logits(self, hidden_rows: torch.Tensor) -> torch.Tensor:
        """[rows, hidden] -> float32 [rows, vocab_size], of the token after each of `input_ids`."""
        if self.lm_head is None:
            return self.target.compute_logits(hidden_rows)
        return self.logits_processor(hidden_rows, self.lm_head)

    def attention_config(self) -> ModelConfig:
        return replace(self.target.attention_config(), num_hidden_layers=1)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take the layer's tensors from the target's checkpoint; others are passed over.

        Raises:
            WeightError: a tensor of a wrong shape, or one that is missing.
        """
        load_weights(self, self._own(weights), self.target.stacked)

    def _own(self, weights: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        prefix = f"model.layers.{self.config.num_hidden_layers}."
        whole = {"model.embed_tokens.": self.embed_tokens, "lm_head.": self.lm_head}
        for name, tensor in weights:
            for begins, part in whole.items():
                if part is not None and part.weight_keys() and name.startswith(begins):
                    yield name.removeprefix("model."), tensor
            rest = name.removeprefix(prefix)
            if rest == name or rest.startswith(("embed_tokens.", "shared_head.head.")):
                continue
            outer = rest.startswith(("enorm.", "hnorm.", "eh_proj.", "shared_head."))
            yield rest.removeprefix("shared_head.") if outer else f"decoder.{rest}", tensor


def load_mtp(path_or_id: str | Path, target: DeepseekV2ForCausalLM) -> DeepseekMTP:
    """The draft layer in a target's checkpoint, in the target's dtype and on its device.

    Raises:
        BadArgumentError: the target is no DeepSeek model. WeightError: the checkpoint has no such layer.
    """
    if not isinstance(target, DeepseekV2ForCausalLM):
        remedy = "Other architectures here have no such layer."
        raise BadArgumentError("target", "a DeepSeek model", type(target).__name__, remedy)
    before = torch.get_default_dtype()
    torch.set_default_dtype(target.dtype)
    try:
        with target.device:
            draft = DeepseekMTP(target)
    finally:
        torch.set_default_dtype(before)
    draft.load_weights(checkpoint(model_folder(path_or_id)))
    return draft.eval()
