"""Filters by sorting, with sums in float64."""

from __future__ import annotations

import torch

from sglab.kernels.sampling.contract import FilterArguments


def run(a: FilterArguments) -> tuple[()]:
    kept = a.values >= _least(a)[:, None]
    a.out.copy_(torch.where(kept, a.values, a.fill))
    if a.renormalise:
        a.out.div_(a.out.double().sum(1, keepdim=True).float())
    return ()


def _least(a: FilterArguments) -> torch.Tensor:
    """(rows,) the smallest value that is kept."""
    if a.kind == "min_p":
        return a.values.amax(1) * a.bound
    ordered = a.values.sort(1, descending=True).values
    if a.kind == "top_k":
        last = a.bound.clamp(max=a.values.shape[1]) - 1
    else:
        share = ordered.double().cumsum(1) / ordered.double().sum(1, keepdim=True)
        short = (share < a.bound.double()[:, None] - 1e-9).sum(1)
        last = short.clamp(max=a.values.shape[1] - 1)
    return ordered.gather(1, last.long()[:, None])[:, 0]
