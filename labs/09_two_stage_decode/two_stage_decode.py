"""Lab 09: decode attention in two stages, in Triton. The model solution."""

import torch
import triton.language as tl

from sglab.triton import triton_kernel


@triton_kernel
def stage_1(q, k, v, page_table, seq_lens, partial, lse, scale, pages, SPLITS: tl.constexpr):
    request, split = tl.program_id(0), tl.program_id(1)
    heads, dims, rows = tl.arange(0, 4), tl.arange(0, 32), tl.arange(0, 16)
    length = tl.load(seq_lens + request)
    per_split = tl.cdiv(tl.cdiv(length, 16), SPLITS)
    first = split * per_split
    last = tl.minimum(first + per_split, tl.cdiv(length, 16))
    query = tl.load(q + request * 128 + heads[:, None] * 32 + dims[None, :]).to(tl.float32)
    m = tl.full((4,), float("-inf"), tl.float32)
    d = tl.zeros((4,), tl.float32)
    o = tl.zeros((4, 32), tl.float32)
    for page in range(first, last):
        slot = tl.load(page_table + request * pages + page) * 16 + rows
        seen = page * 16 + rows < length
        at = slot[:, None] * 32 + dims[None, :]
        keys = tl.load(k + at, mask=seen[:, None], other=0.0).to(tl.float32)
        values = tl.load(v + at, mask=seen[:, None], other=0.0).to(tl.float32)
        s = tl.sum(query[:, None, :] * keys[None, :, :], 2) * scale
        s = tl.where(seen[None, :], s, float("-inf"))
        top = tl.maximum(m, tl.max(s, 1))
        factor = tl.exp(m - top)
        p = tl.exp(s - top[:, None])
        d = d * factor + tl.sum(p, 1)
        o = o * factor[:, None] + tl.sum(p[:, :, None] * values[None, :, :], 1)
        m = top
    to = (request * SPLITS + split) * 4 + heads
    tl.store(lse + to, tl.where(d > 0, m + tl.log(d), float("-inf")))
    tl.store(partial + to[:, None] * 32 + dims[None, :], o / tl.where(d > 0, d, 1.0)[:, None])


@triton_kernel
def stage_2(partial, lse, out, SPLITS: tl.constexpr):
    request, head = tl.program_id(0), tl.program_id(1)
    splits, dims = tl.arange(0, SPLITS), tl.arange(0, 32)
    at = (request * SPLITS + splits) * 4 + head
    weights = tl.load(lse + at)
    weights = tl.exp(weights - tl.max(weights, 0))
    parts = tl.load(partial + at[:, None] * 32 + dims[None, :])
    merged = tl.sum(parts * weights[:, None], 0) / tl.sum(weights, 0)
    tl.store(out + (request * 4 + head) * 32 + dims, merged)


def decode(q, k, v, page_table, seq_lens, out, scale, splits):
    requests = len(seq_lens)
    partial = torch.zeros(requests, splits, 4, 32)
    lse = torch.zeros(requests, splits, 4)
    width = page_table.shape[1]
    stage_1[(requests, splits)](q, k, v, page_table, seq_lens, partial, lse, scale, width, SPLITS=splits, num_warps=1)
    stage_2[(requests, 4)](partial, lse, out, SPLITS=splits, num_warps=1)
