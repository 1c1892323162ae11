"""What the SM90 kernel's parts are to do, as tensors on its device: from our plan, or made there without the host."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.combine.contract import MANY_SPLITS
from sglab.planning.mla_sm90 import NO_SLOT, NO_WORK, MlaSm90Plan
from sglab.planning.set_split_kv import TILE_S

BLOCK = 64
"""Tokens of one of FlashMLA's blocks."""


@dataclass(frozen=True)
class Works:
    """works int32 (rounds, parts, 4): request, first token, end token, slot or −1. Part p does works[:, p] up to the
    first whose request is −1

    requests, slot_indptr, partial_count: what the combine gets, see split_kv_combine
    slots: how many partial results there is to be room for; 0: nothing is split, and nothing combined
    many: whether requests have so many splits that the combine should share rows
    """

    works: torch.Tensor
    requests: torch.Tensor
    slot_indptr: torch.Tensor
    partial_count: torch.Tensor | None
    slots: int
    many: bool

    @property
    def parts(self) -> int:
        return self.works.shape[1]


def planned(plan: MlaSm90Plan, place: str) -> Works:
    """Our own plan, put on a device."""
    works, requests, slot_indptr = (
        torch.from_numpy(array).to(place) for array in (plan.works, plan.split_requests, plan.slot_indptr)
    )
    many = plan.slots > MANY_SPLITS * plan.split_requests.size
    return Works(works, requests, slot_indptr, None, plan.slots, many)


def evenly_split(seq_lens: torch.Tensor, split_kv: int) -> Works:
    """A part per request and split, of whole 128-token tiles, as CUTLASS deals them out."""
    batch, place = len(seq_lens), seq_lens.device
    request = torch.arange(batch, device=place).repeat_interleave(split_kv)
    split = torch.arange(split_kv, device=place).repeat(batch)
    tiles = -(-seq_lens.long() // TILE_S)
    share = (-(-tiles // split_kv)).clamp(min=1)
    used = (-(-tiles // share)).clamp(min=1)
    begin = split * share[request] * TILE_S
    end = torch.minimum(begin + share[request] * TILE_S, seq_lens[request])
    slot = torch.where(used[request] > 1, torch.arange(batch * split_kv, device=place), NO_SLOT)
    works = torch.stack([torch.where(split < used[request], request, NO_WORK), begin, end, slot], -1)
    return Works(
        works.int().unsqueeze(0),
        torch.arange(batch, dtype=torch.int32, device=place),
        split_kv * torch.arange(batch + 1, dtype=torch.int32, device=place),
        torch.where(used > 1, used, 0).int(),
        batch * split_kv if split_kv > 1 else 0,
        split_kv > MANY_SPLITS,
    )


def of_flash_mla(tile_scheduler_metadata: torch.Tensor, num_splits: torch.Tensor, cache_seqlens: torch.Tensor) -> Works:
    """FlashMLA's metadata: each of its parts does a run of requests, the first from a block on, the last up to one."""
    batch, place = len(cache_seqlens), cache_seqlens.device
    first, last, first_block, last_block, first_split = tile_scheduler_metadata[:, :5].long().unbind(-1)
    turn = torch.arange(batch, device=place).unsqueeze(-1)
    request = first + turn
    there = (request <= last) & (request < batch)
    known = request.clamp(max=batch - 1)
    length = cache_seqlens.long()[known]
    begin = torch.where(turn == 0, first_block, 0) * BLOCK
    end = torch.where(request == last, torch.minimum(last_block * BLOCK, length), length)
    splits = num_splits.diff()
    slot = num_splits[known] + torch.where(turn == 0, first_split, 0)
    works = torch.stack(
        [torch.where(there, request, NO_WORK), begin, end, torch.where(splits[known] > 1, slot, NO_SLOT)], -1
    )
    return Works(
        works.int(),
        torch.arange(batch, dtype=torch.int32, device=place),
        num_splits,
        torch.where(splits > 1, splits, 0).int(),
        batch + len(tile_scheduler_metadata),
        len(tile_scheduler_metadata) > MANY_SPLITS * batch,
    )


def per_query_token(works: Works, tokens: int, lengths: torch.Tensor) -> Works:
    """Each request as `tokens` requests with lengths of their own, no longer than its: request r's are r · tokens + i.

    lengths: (batch · tokens,) int32. A part does a work's range for one after the other; where a range begins behind a
    length, nothing is left of it, and its partial result is empty.
    """
    batch, place = len(lengths) // tokens, lengths.device
    token = torch.arange(tokens, device=place).unsqueeze(-1)
    request, begin, end, slot = works.works.long().unsqueeze(1).unbind(-1)  # (rounds, 1, parts)
    known = request.clamp(min=0)
    length = lengths.long()[known * tokens + token]
    first, splits = works.slot_indptr[:-1].long(), works.slot_indptr.diff().long()
    own = first[known] * (tokens - 1) + token * splits[known] + slot
    split_up = torch.stack(
        torch.broadcast_tensors(
            torch.where(request == NO_WORK, NO_WORK, request * tokens + token),
            torch.minimum(begin, length),
            torch.minimum(end, length),
            torch.where(slot == NO_SLOT, NO_SLOT, own),
        ),
        -1,
    )
    each = splits.repeat_interleave(tokens)
    slot_indptr = torch.zeros(batch * tokens + 1, dtype=torch.int32, device=place)
    slot_indptr[1:] = each.cumsum(0)
    return Works(
        split_up.flatten(0, 1).int(),
        torch.arange(batch * tokens, dtype=torch.int32, device=place),
        slot_indptr,
        works.partial_count.repeat_interleave(tokens) if works.partial_count is not None else None,
        works.slots * tokens,
        works.many,
    )
