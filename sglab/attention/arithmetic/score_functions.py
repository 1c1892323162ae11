"""Score functions that models have: ALiBi's slopes, and learned biases of distances."""

from __future__ import annotations

import torch

from sglab.engine import ScoreMod


def alibi(slopes: torch.Tensor) -> ScoreMod:
    """Logits that fall with the key's distance, slopes float [heads]. SGLang adds slope · the key's position: the same
    softmax, of larger logits."""

    def score(
        logits: torch.Tensor, q_pos: torch.Tensor, kv_pos: torch.Tensor, q_idx: torch.Tensor, head: torch.Tensor
    ) -> torch.Tensor:
        return logits + slopes.to(logits.dtype)[head] * (kv_pos - q_pos)

    return score


def relative_bias(bias: torch.Tensor) -> ScoreMod:
    """Inkling's: a bias of each query token and head by distance, float [tokens, heads, distances]; 0 beyond them.

    Source: SGLang 0.5.23 `kernels/ops/attention/score_mod.py`, relative_bias_score_mod.
    """

    def score(
        logits: torch.Tensor, q_pos: torch.Tensor, kv_pos: torch.Tensor, q_idx: torch.Tensor, head: torch.Tensor
    ) -> torch.Tensor:
        distance = q_pos - kv_pos
        near = (distance >= 0) & (distance < bias.shape[2])
        added = bias[q_idx, head, distance.clamp(0, bias.shape[2] - 1)].to(logits.dtype)
        return logits + torch.where(near, added, 0.0)

    return score
