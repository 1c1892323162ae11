"""Routing: which experts a token goes to, and with what weight. Source: SGLang `layers/moe/topk.py`.

A correction bias only chooses: the weights are the scores without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch

from sglab.engine.errors import BadArgumentError

Scoring = Literal["softmax", "sigmoid"]
RENORMALIZE_EPS = 1e-20


class Routing(NamedTuple):
    """`weights`: float32 [tokens, topk]. `ids`: int64 [tokens, topk]."""

    weights: torch.Tensor
    ids: torch.Tensor


@dataclass(frozen=True)
class TopK:
    """How a layer routes.

    Attributes:
        top_k: experts per token.
        scoring: scores are the softmax of all logits or the sigmoid of each. The softmax of the chosen logits alone
            (gpt-oss) is "softmax", renormalised.
        renormalize: divide a token's weights by their sum.
        num_expert_group, topk_group: experts lie in so many groups, and only the best so many groups are chosen from;
            0: no groups. A group's score is its best expert's, or with a correction bias the sum of its two best.
        routed_scaling_factor: multiplies the weights, after they were renormalised.
    """

    top_k: int
    scoring: Scoring = "softmax"
    renormalize: bool = True
    num_expert_group: int = 0
    topk_group: int = 0
    routed_scaling_factor: float = 1.0

    def __call__(self, router_logits: torch.Tensor, correction_bias: torch.Tensor | None = None) -> Routing:
        """Route tokens by their logits [tokens, experts].

        Args:
            correction_bias: float [experts], added to the scores for choosing.

        Raises:
            BadArgumentError: fewer experts than top_k, or groups that do not divide them.
        """
        experts = router_logits.shape[-1]
        self._check(experts)
        scores = self.scores(router_logits)
        choice = scores if correction_bias is None else scores + correction_bias.float()
        if self.num_expert_group > 1:
            # Softmax scores are positive, so 0 leaves a group out; biased scores may be negative.
            biased = correction_bias is not None
            left_out = self.kept_groups(choice, biased).logical_not_()[..., None]
            groups = choice.unflatten(-1, (self.num_expert_group, -1))
            choice = groups.masked_fill(left_out, -math.inf if biased else 0.0).flatten(-2)
        ids = choice.topk(self.top_k, dim=-1).indices
        weights = scores.gather(-1, ids)
        if self.renormalize:
            weights = weights / (weights.sum(-1, keepdim=True) + RENORMALIZE_EPS)
        return Routing(weights * self.routed_scaling_factor, ids)

    def scores(self, router_logits: torch.Tensor) -> torch.Tensor:
        """float32 [tokens, experts], from which the weights are taken."""
        logits = router_logits.float()
        return logits.softmax(-1) if self.scoring == "softmax" else logits.sigmoid()

    def kept_groups(self, choice: torch.Tensor, biased: bool) -> torch.Tensor:
        """bool [tokens, groups]: the best, which experts are chosen from. `choice`: scores with the bias, if any."""
        groups = choice.unflatten(-1, (self.num_expert_group, -1))
        best = groups.topk(min(2, groups.shape[-1]), dim=-1).values.sum(-1) if biased else groups.amax(-1)
        kept = torch.zeros_like(best, dtype=torch.bool)
        return kept.scatter_(-1, best.topk(self.topk_group, dim=-1).indices, True)

    def _check(self, experts: int) -> None:
        groups = max(self.num_expert_group, 1)
        reachable = experts // groups * (self.topk_group if groups > 1 else 1)
        if experts % groups or self.top_k > reachable:
            got = f"{experts} experts in {groups} groups, {self.topk_group or 1} of them chosen"
            remedy = "Check num_experts_per_tok, n_group and topk_group in config.json."
            raise BadArgumentError("top_k", f"{self.top_k} experts to choose", got, remedy)
