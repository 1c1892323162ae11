"""SamplingInfo: a pass's sampling parameters as tensors, a row per request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from sglab.engine import Req
from sglab.engine.batch.sampling_params import TOP_K_ALL


@dataclass(frozen=True)
class SamplingInfo:
    """What the sampler reads. Tensors are None where no row needs them."""

    all_greedy: bool
    greedy: torch.Tensor | None = None
    """bool [B]."""
    temperatures: torch.Tensor | None = None
    """float32 [B, 1]; 1 in greedy rows."""
    top_ks: torch.Tensor | None = None
    """int64 [B, 1]; None: no row cuts its vocabulary, as with the next two."""
    top_ps: torch.Tensor | None = None
    min_ps: torch.Tensor | None = None
    seeds: torch.Tensor | None = None
    """int64 [B]."""
    seeded: torch.Tensor | None = None
    """bool [B]: rows that have a seed; None: none has."""
    bias: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None
    """Rows, tokens and what is added to their logits."""
    penalized: tuple[int, ...] = ()
    """Rows with a penalty."""
    may_ban: bool = False
    """Whether any request has tokens that must not come too early."""
    top_logprobs: int | None = None
    """None: no request asks for log probabilities; else how many of the likeliest tokens at most."""
    logprob_ids: torch.Tensor | None = None
    """int64 [B, n]: tokens whose log probabilities are wanted besides; rows with fewer are filled up with 0."""

    @cached_property
    def is_plain_greedy(self) -> bool:
        """Whether each row's token is that of its largest logit, and nothing else is wanted."""
        return self.all_greedy and self.bias is None and not self.penalized and self.top_logprobs is None

    @classmethod
    def of(cls, reqs: Sequence[Req], device: torch.device) -> SamplingInfo:
        """The parameters of a pass's requests, in its order."""
        params = [req.sampling_params for req in reqs]
        asked = [req.top_logprobs_num for req in reqs if req.return_logprob]
        ids = padded([req.token_ids_logprob if req.return_logprob else () for req in reqs])
        greedy = [each.is_greedy for each in params]
        bias = [(row, token, value) for row, each in enumerate(params) for token, value in each.logit_bias.items()]
        columns = list(zip(*bias, strict=True))
        common = {
            "may_ban": any(each.min_new_tokens for each in params),
            "penalized": tuple(row for row, each in enumerate(params) if each.has_penalty),
            "top_logprobs": max(asked) if asked else None,
            "logprob_ids": ids.to(device, non_blocking=True) if ids.shape[1] else None,
            "bias": (
                torch.tensor(columns[0], device=device),
                torch.tensor(columns[1], device=device),
                torch.tensor(columns[2], dtype=torch.float32, device=device),
            )
            if bias
            else None,
        }
        if all(greedy):
            return cls(True, **common)  # type: ignore[arg-type]

        def column(values: list[float], dtype: torch.dtype) -> torch.Tensor:
            return torch.tensor(values, dtype=dtype).to(device, non_blocking=True)[:, None]

        cuts = any(
            (each.top_k != -1 or each.top_p < 1 or each.min_p > 0) and not one
            for each, one in zip(params, greedy, strict=True)
        )
        seeds = [each.sampling_seed for each in params]
        has_seed = [seed is not None for seed in seeds]
        return cls(
            False,
            greedy=torch.tensor(greedy).to(device),
            temperatures=column(
                [1.0 if one else each.temperature for each, one in zip(params, greedy, strict=True)], torch.float32
            ),
            top_ks=column([TOP_K_ALL if p.top_k == -1 else p.top_k for p in params], torch.int64) if cuts else None,
            top_ps=column([p.top_p for p in params], torch.float32) if cuts else None,
            min_ps=column([p.min_p for p in params], torch.float32) if cuts else None,
            seeds=torch.tensor([seed or 0 for seed in seeds]).to(device) if any(has_seed) else None,
            seeded=torch.tensor(has_seed).to(device) if any(has_seed) else None,
            **common,  # type: ignore[arg-type]
        )


def padded(rows: Sequence[Sequence[int]]) -> torch.Tensor:
    """int64 [rows, longest], filled up with 0."""
    longest = max((len(row) for row in rows), default=0)
    flat = [[*row, *[0] * (longest - len(row))] for row in rows]
    return torch.tensor(flat, dtype=torch.int64).view(len(rows), longest)
