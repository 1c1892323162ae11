"""Decode attention in float64: the output from all keys at once, the partials from each split's keys."""

from __future__ import annotations

from dataclasses import replace

import torch

from sglab.kernels.decode_attention.contract import DecodeArguments, split_ranges
from sglab.kernels.fp8 import per_head
from sglab.kernels.scoring import dense_attention


def run(arguments: DecodeArguments) -> tuple[()]:
    indptr, splits = arguments.kv_indptr.tolist(), arguments.num_kv_splits.tolist()
    for request in range(len(arguments.q)):
        slots = arguments.kv_indices[indptr[request] : indptr[request + 1]].long()
        _one(arguments, request, slots, splits[request])
    return ()


def _one(arguments: DecodeArguments, request: int, slots: torch.Tensor, splits: int) -> None:
    q, length = arguments.q[request : request + 1], len(slots)
    k = arguments.k_buffer[slots].double() * per_head(arguments.k_scale)
    v, v_scale = arguments.v_buffer[slots].double(), per_head(arguments.v_scale)
    position = torch.tensor([max(length - 1, 0)], device=q.device)
    o, lse = dense_attention(q, k, v * v_scale, position, arguments.scoring)
    arguments.o[request] = o[0]
    if arguments.lse is not None:
        arguments.lse[request] = lse[0]
    keys_alone = replace(arguments.scoring, sinks=None)
    for index, (first, end) in enumerate(split_ranges(length, splits)):
        partial, partial_lse = dense_attention(q, k[first:end], v[first:end], position, keys_alone)
        arguments.attn_logits[request, :, index] = partial[0]
        arguments.attn_lse[request, :, index] = partial_lse[0]
