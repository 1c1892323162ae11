"""SGLang's attention operators for CPUs in float64, request by request."""

from __future__ import annotations

import math

import torch

from sglab.kernels.cpu_attention.contract import CpuAttentionArguments
from sglab.kernels.scoring import Scoring, dense_attention


def run(a: CpuAttentionArguments) -> tuple[()]:
    for request in range(len(a.lengths)):
        count, start = int(a.new_lens[request]), int(a.starts[request])
        rows = slice(start, start + count)
        slots = a.slots(request)
        k, v = a.k_buffer[slots].double() * a.k_scale, a.v_buffer[slots].double() * a.v_scale
        if a.k_new is not None and a.v_new is not None:
            k, v = k.clone(), v.clone()
            k[len(k) - count :], v[len(v) - count :] = a.k_new[rows].double(), a.v_new[rows].double()
        position = torch.arange(count) + len(k) - count
        key = torch.arange(len(k))
        seen = torch.ones(count, len(k), dtype=torch.bool)
        if a.causal:
            seen &= key <= position[:, None]
        if a.window:
            seen &= key > position[:, None] - a.window
        if a.mask is not None:
            first = int(a.mask_start[request])
            seen &= a.mask[first : first + seen.numel()].view(seen.shape).bool()
        a.out[rows] = dense_attention(a.q[rows], k, v, position, a.scoring, seen)[0].to(a.out.dtype)
        if a.attn_logits is not None:
            _partials(a, a.attn_logits, request, k, v, seen)
    return ()


def _partials(
    a: CpuAttentionArguments, logits: torch.Tensor, request: int, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor
) -> None:
    """Each split's output and LSE, without the sinks; nothing of a split without keys."""
    splits = logits.shape[2]
    size = -(-len(k) // splits)
    keys_alone = Scoring(a.scoring.sm_scale, a.scoring.logit_cap)
    logits[request, :, :, :-1] = 0
    logits[request, :, :, -1] = -math.inf
    row = slice(int(a.starts[request]), int(a.starts[request]) + 1)
    for split in range(-(-len(k) // size) if size else 0):
        part = slice(split * size, (split + 1) * size)
        position = torch.zeros(1, dtype=torch.int64)
        o, lse = dense_attention(a.q[row], k[part], v[part], position, keys_alone, seen[:, part])
        logits[request, :, split, :-1], logits[request, :, split, -1] = o[0].float(), lse[0].float()
