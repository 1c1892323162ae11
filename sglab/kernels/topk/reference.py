"""Top-k by a stable sort: of equal scores the earlier keys; results ascend."""

from __future__ import annotations

import torch

from sglab.kernels.topk.contract import LookupArguments, TopkArguments


def topk(a: TopkArguments) -> tuple[()]:
    a.out.fill_(-1)
    for row, length in enumerate(a.lengths.tolist()):
        first = 0 if a.starts is None else int(a.starts[row])
        scores = a.score[row, first : first + length]
        best = scores.argsort(descending=True, stable=True)[: a.out.shape[1]].sort().values
        if a.table is not None:
            request = row if a.request_of is None else int(a.request_of[row])
            best = a.table[request, best]
        if a.offsets is not None:
            best = best + a.offsets[row]
        a.out[row, : len(best)] = best.int()
    return ()


def topk_sorted(a: TopkArguments) -> tuple[()]:
    """All rows by one stable sort."""
    width = a.score.shape[1]
    column = torch.arange(width, device=a.device)
    score = a.score
    if a.starts is not None:
        score = score.gather(1, (column + a.starts[:, None].long()).clamp(max=max(width - 1, 0)))
    # What lies past a row's scores comes after all of them, also after those that are -inf: a stable sort.
    outside = column >= a.lengths[:, None]
    order = score.masked_fill(outside, -torch.inf).argsort(dim=1, descending=True, stable=True)[:, : a.out.shape[1]]
    best = torch.where(order < a.lengths[:, None], order, width).sort(1).values
    found = best.clamp(max=max(width - 1, 0))
    if a.table is not None:
        rows = torch.arange(len(score), device=a.device) if a.request_of is None else a.request_of.long()
        found = a.table[rows[:, None], found.clamp(max=a.table.shape[1] - 1)].long()
    if a.offsets is not None:
        found = found + a.offsets[:, None]
    a.out.fill_(-1)
    a.out[:, : best.shape[1]] = torch.where(best < width, found, -1).int()
    return ()


def lookup(a: LookupArguments) -> tuple[()]:
    rows = torch.arange(len(a.indices), device=a.device) if a.request_of is None else a.request_of.long()
    found = a.table[rows[:, None], a.indices.long().clamp(min=0)]
    a.out.copy_(torch.where(a.indices < 0, -1, found))
    return ()
