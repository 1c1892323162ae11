"""LogitsAdjuster: bias, bans of stop tokens and penalties, applied to logits before sampling.

What a penalty counts lives on the device, by row of the request pool, so that it is right for a token that the host has
not seen yet (overlap). Source: SGLang `sampling/penaltylib`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sglab.engine import Req
from sglab.serving.sampling_info import SamplingInfo


class LogitsAdjuster:
    """Counts generated tokens of requests with penalties, and adjusts logits.

    Args:
        rows: of the request pool.
        vocab_size: columns of the logits.
    """

    def __init__(self, rows: int, vocab_size: int, device: torch.device) -> None:
        self.rows, self.vocab_size, self.device = rows, vocab_size, device
        self._counts: torch.Tensor | None = None

    def start(self, row: int, req: Req) -> None:
        """A prefill that ends: count what a retracted request had generated before."""
        if not req.sampling_params.has_penalty:
            return
        counts = self._all_counts()
        counts[row] = 0
        if req.output_ids:
            counts[row] += torch.bincount(
                torch.tensor(req.output_ids, device=self.device), minlength=self.vocab_size
            ).to(counts.dtype)

    def adjust(
        self,
        logits: torch.Tensor,
        info: SamplingInfo,
        rows: torch.Tensor,
        reqs: Sequence[Req],
        generated: Sequence[int],
    ) -> torch.Tensor:
        """The logits to sample from: the given ones where nothing applies, else a copy.

        Args:
            logits: float32 [B, vocab].
            rows: int64 [B], of the request pool.
            generated: tokens that each request has generated before this one.
        """
        bans = self.bans(reqs, generated)
        if not bans and info.bias is None and not info.penalized:
            return logits
        logits = logits.clone()
        if info.penalized:
            self._penalize(logits, info, rows, reqs)
        if info.bias is not None:
            where, tokens, values = info.bias
            logits.index_put_((where, tokens), values, accumulate=True)
        if bans:
            where, tokens = torch.tensor(bans, device=logits.device).T
            logits[where, tokens] = -torch.inf
        return logits

    def bans(self, reqs: Sequence[Req], generated: Sequence[int]) -> list[tuple[int, int]]:
        """(row, token) of stop tokens that come too early."""
        return [
            (i, token)
            for i, (req, count) in enumerate(zip(reqs, generated, strict=True))
            if count < req.sampling_params.min_new_tokens
            for token in stop_tokens(req)
        ]

    def count(self, info: SamplingInfo, rows: torch.Tensor, tokens: torch.Tensor) -> None:
        """Count what was just chosen."""
        if info.penalized:
            chosen = torch.tensor(info.penalized, device=self.device)
            self._all_counts()[rows[chosen], tokens[chosen]] += 1

    def _penalize(self, logits: torch.Tensor, info: SamplingInfo, rows: torch.Tensor, reqs: Sequence[Req]) -> None:
        chosen = torch.tensor(info.penalized, device=logits.device)
        params = [reqs[i].sampling_params for i in info.penalized]
        strengths = [[p.frequency_penalty, p.presence_penalty, p.repetition_penalty] for p in params]
        frequency, presence, repetition = torch.tensor(strengths, device=logits.device).T[..., None]
        counts = self._all_counts()[rows[chosen]]
        seen, part = counts > 0, logits[chosen]
        scaled = torch.where(part > 0, part / repetition, part * repetition)
        part = torch.where(seen, scaled, part)
        logits[chosen] = part - frequency * counts - presence * seen

    def _all_counts(self) -> torch.Tensor:
        if self._counts is None:
            self._counts = torch.zeros((self.rows, self.vocab_size), dtype=torch.int32, device=self.device)
        return self._counts


def stop_tokens(req: Req) -> frozenset[int]:
    """The tokens that would end a request."""
    params = req.sampling_params
    return params.stop_token_ids if params.ignore_eos else params.stop_token_ids | req.eos_token_ids
