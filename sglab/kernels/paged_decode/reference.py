"""Paged decode in float64."""

from __future__ import annotations

import math
from itertools import pairwise

import torch

from sglab.kernels.paged_decode.contract import PagedDecodeArguments


def run(a: PagedDecodeArguments) -> tuple[()]:
    starts = a.kv_indptr.tolist()
    for request, (first, end) in enumerate(pairwise(starts)):
        pages = a.kv_indices[first:end].long()
        length = (end - first - 1) * a.k.shape[1] + int(a.kv_last_page_len[request]) if end > first else 0
        k, v = (cache[pages].flatten(0, 1)[:length].double().repeat_interleave(a.group, 1) for cache in (a.k, a.v))
        scores = torch.einsum("hd,khd->hk", a.q[request].double(), k) * a.sm_scale
        lse = torch.logsumexp(scores, 1) if length else scores.new_full((len(scores),), -math.inf)
        weights = (scores - lse[:, None]).exp() if length else scores
        a.out[request] = torch.einsum("hk,khd->hd", weights, v).to(a.out.dtype)
        a.lse[request] = (lse / math.log(2)).float()
    return ()
