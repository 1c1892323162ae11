"""LogitsProcessor: from hidden states to the logits that sampling reads."""

from __future__ import annotations

import torch
from torch import nn

from sglab.engine import ForwardBatch
from sglab.layers.embedding import ParallelLMHead


class LogitsProcessor(nn.Module):
    """Applies the LM head, a scale and a cap. Source: SGLang `layers/logits_processor.py`.

    Args:
        logit_scale: multiplies the logits.
        final_logit_softcapping: c, if the logits become c · tanh(logit / c).
    """

    def __init__(self, logit_scale: float = 1.0, final_logit_softcapping: float | None = None) -> None:
        super().__init__()
        self.logit_scale, self.cap = logit_scale, final_logit_softcapping

    @staticmethod
    def sampled_rows(hidden: torch.Tensor, forward_batch: ForwardBatch) -> torch.Tensor:
        """The rows that a next token is sampled from: each request's last. [tokens, hidden] -> [B, hidden]."""
        mode = forward_batch.forward_mode
        if mode.is_decode_or_idle() or mode.is_target_verify():
            return hidden
        assert forward_batch.extend_seq_lens is not None
        return hidden[torch.cumsum(forward_batch.extend_seq_lens.to(torch.int64), 0) - 1]

    def forward(self, rows: torch.Tensor, lm_head: ParallelLMHead) -> torch.Tensor:
        """[rows, hidden] -> float32 [rows, vocabulary]."""
        logits = lm_head.logits(rows)
        if self.logit_scale != 1.0:
            logits = logits * self.logit_scale
        return logits if self.cap is None else self.cap * torch.tanh(logits / self.cap)
