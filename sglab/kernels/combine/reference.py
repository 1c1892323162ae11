"""The combine in float64, entry by entry."""

from __future__ import annotations

import math

import torch

from sglab.kernels.combine.contract import CombineArguments


def run(a: CombineArguments) -> tuple[()]:
    indptr = a.slot_indptr.tolist()
    for request, first, end in zip(a.requests.tolist(), indptr, indptr[1:], strict=False):
        if a.partial_count is not None:
            end = first + int(a.partial_count[request])
        if end == first:
            continue
        lse_of = a.partial_lse[first:end].double() * math.log(2)
        seen = lse_of != -math.inf  # a NaN is seen
        lse = torch.logsumexp(lse_of, 0)
        weight = torch.where(seen, (lse_of - lse).exp(), 0.0)
        rows = torch.where(seen.unsqueeze(-1), a.partial_out[first:end].double(), 0.0)
        a.out[request] = (weight.unsqueeze(-1) * rows).sum(0).to(a.out.dtype)
        if a.lse is not None:
            a.lse[request] = lse / math.log(2.0 if a.lse_base == "2" else math.e)
    return ()
