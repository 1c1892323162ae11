"""What must hold before attention may read a batch. Every message names the argument, the request and the remedy.

A kernel checks none of this: a slot outside the pool is an illegal read, a stale slot a silently wrong answer, and one
NaN anywhere in a page that is read spoils the output even where it is masked.
"""

from __future__ import annotations

import torch

from sglab.engine.cache.allocator import BaseTokenToKVPoolAllocator
from sglab.engine.cache.kv_pool import KVCache
from sglab.engine.cache.req_to_token_pool import ReqToTokenPool
from sglab.engine.errors import BadArgumentError, NonFiniteKVError, PageTableError
from sglab.kernels.finite import all_finite

_INTEGERS = (torch.int32, torch.int64)


def check_tensor(
    name: str, tensor: torch.Tensor, shape: tuple[int, ...], dtypes: tuple[torch.dtype, ...], device: torch.device
) -> None:
    """A tensor of this shape, of one of these dtypes, on this device.

    Raises:
        BadArgumentError: it is not.
    """
    if not isinstance(tensor, torch.Tensor):
        raise BadArgumentError(name, "a torch.Tensor", type(tensor).__name__, "Convert it with torch.as_tensor.")
    if tuple(tensor.shape) != shape:
        raise BadArgumentError(name, f"shape {shape}", tuple(tensor.shape), "Reshape it or rebuild the batch.")
    if tensor.dtype not in dtypes:
        wanted = " or ".join(str(dtype) for dtype in dtypes)
        raise BadArgumentError(name, wanted, tensor.dtype, f"Convert it with .to({dtypes[0]}).")
    if tensor.device.type != device.type:
        raise BadArgumentError(name, f"a tensor on {device}", tensor.device, f"Move it with .to({str(device)!r}).")


def check_lengths(seq_lens: torch.Tensor, batch_size: int, max_context_len: int, device: torch.device) -> None:
    """int [B], each from 1 to the width of a page-table row."""
    check_tensor("seq_lens", seq_lens, (batch_size,), (torch.int64, torch.int32), device)
    wrong = (seq_lens < 1) | (seq_lens > max_context_len)
    if wrong.any():
        i = int(wrong.nonzero()[0])
        raise PageTableError(
            f"seq_lens[{i}]: expected 1..{max_context_len}, the width of a req_to_token row, got {int(seq_lens[i])}. "
            "Shorten the request or build the batch with a larger max_context_len."
        )


def check_rows(pool: ReqToTokenPool, req_pool_indices: torch.Tensor, batch_size: int) -> None:
    """int [B], rows of the pool.

    Raises:
        BadArgumentError, PageTableError: naming the request.
    """
    check_tensor("req_pool_indices", req_pool_indices, (batch_size,), _INTEGERS, pool.device)
    rows = (req_pool_indices < 0) | (req_pool_indices >= pool.size)
    if rows.any():
        i = int(rows.nonzero()[0])
        got = int(req_pool_indices[i])
        raise PageTableError(
            f"req_pool_indices[{i}]: expected a row 0..{pool.size - 1}, got {got}. Allocate the request."
        )


def check_slots(
    pool: ReqToTokenPool,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    kv_pool: KVCache | BaseTokenToKVPoolAllocator,
    requests: list[int],
) -> None:
    """Every token's slot is in the pool, outside the dummy page and page-aligned: within a page, slots count up.

    Args:
        kv_pool: whose slots they are: a pool, or the allocator of pools that share a request.
        requests: what number each row's request has in the batch, for the message.

    Raises:
        PageTableError: naming the request, the token and the slot.
    """
    slots = pool.req_to_token[req_pool_indices][:, : int(seq_lens.max())].to(torch.int64)
    position = torch.arange(slots.shape[1], device=slots.device)
    live = position < seq_lens[:, None]
    page_size = kv_pool.page_size
    _refuse_slots(
        live & ((slots < 0) | (slots >= kv_pool.size + page_size)),
        slots,
        requests,
        f"a slot {page_size}..{kv_pool.size + page_size - 1} of the pool",
        "The page table points outside the pool: take slots from the allocator (batch.allocate, extend_by_token).",
    )
    _refuse_slots(
        live & (slots < page_size),
        slots,
        requests,
        "a slot outside page 0",
        "Page 0 is the dummy page: the row is too short for this length, or was never filled. Extend the request.",
    )
    first_of_page = slots[:, position // page_size * page_size]
    _refuse_slots(
        live & (slots != first_of_page // page_size * page_size + position % page_size),
        slots,
        requests,
        f"slot % {page_size} == token % {page_size}, counting up within a page",
        "Requests are page-aligned: take slots from the allocator.",
    )


def _refuse_slots(wrong: torch.Tensor, slots: torch.Tensor, requests: list[int], expected: str, remedy: str) -> None:
    if wrong.any():
        i, t = (int(n) for n in wrong.nonzero()[0])
        raise PageTableError(
            f"req_to_token, request {requests[i]}, token {t}: expected {expected}, got {int(slots[i, t])}. {remedy}"
        )


def check_out_cache_loc(out_cache_loc: torch.Tensor, slots: torch.Tensor) -> None:
    """New tokens are written where the page table has them.

    Raises:
        BadArgumentError, PageTableError: naming the token and both slots.
    """
    check_tensor("out_cache_loc", out_cache_loc, tuple(slots.shape), (torch.int64,), slots.device)
    wrong = out_cache_loc != slots
    if wrong.any():
        t = int(wrong.nonzero()[0])
        raise PageTableError(
            f"out_cache_loc[{t}]: expected slot {int(slots[t])}, where req_to_token has this token, got "
            f"{int(out_cache_loc[t])}. Its KV would be written elsewhere than it is read: set it to that slot."
        )


def check_q_finite(q: torch.Tensor, new_tokens: list[int], rids: list[str]) -> None:
    """No NaN or infinity in the queries, [tokens, heads, head_dim], `new_tokens` of each request in turn.

    Raises:
        BadArgumentError: naming the token, its request and the element.
    """
    if all_finite(q):
        return
    token, head, column = (int(n) for n in (~torch.isfinite(q)).nonzero()[0])
    owner = [rid for rid, count in zip(rids, new_tokens, strict=True) for _ in range(count)][token]
    where = f"{float(q[token, head, column])} in token {token} (of request {owner}), head {head}, column {column}"
    raise BadArgumentError("q", "finite numbers", where, "Its output would be NaN: write finite values.")


def check_kv_finite(
    kv_pool: KVCache, layer_id: int, req_to_token: torch.Tensor, rids: dict[int, tuple[str, int]]
) -> None:
    """No NaN or infinity in a layer's buffers, used or not.

    Args:
        rids: row of `req_to_token` -> (request name, length), to say whose slot it is.

    Raises:
        NonFiniteKVError: naming pool, buffer, slot, page and request.
    """
    buffers = kv_pool.named_buffers(layer_id)
    if kv_pool.kv_format:  # a scale may be NaN, a code never
        buffers = dict(zip(("K", "V"), kv_pool.get_kv_buffer(layer_id), strict=True))
    for name, buffer in buffers.items():
        if all_finite(buffer):
            continue
        values = buffer if buffer.dtype.itemsize > 1 else buffer.to(torch.float32)
        slot, head, column = (int(n) for n in (~torch.isfinite(values)).nonzero()[0])
        raise NonFiniteKVError(
            f"{kv_pool.name}, {name} buffer of layer {layer_id}: slot {slot} (page {slot // kv_pool.page_size}, "
            f"{_owner(slot, req_to_token, rids)}) holds {float(values[slot, head, column])} at head {head}, "
            f"column {column}. Masked rows are multiplied too (0 x NaN = NaN): write finite values, zero will do."
        )


def _owner(slot: int, req_to_token: torch.Tensor, rids: dict[int, tuple[str, int]]) -> str:
    for row, (rid, seq_len) in rids.items():
        hits = (req_to_token[row, :seq_len] == slot).nonzero()
        if len(hits):
            return f"token {int(hits[0])} of request {rid}"
    return "owned by no request"
