"""The parts of a call over a KV cache: its queries, where its keys lie, and what is appended first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from sglab.kernels.contract import FLOATS, INT32, Contract
from sglab.kernels.flash_attn.contract import UNBOUNDED, Masking
from sglab.kernels.kv_append import append
from sglab.kernels.kv_append.contract import AppendArguments, Places, Queries, Rotary


@dataclass(frozen=True)
class KvcacheQueries:
    """Queries one after another: q (tokens, heads, dim), where requests start, the longest request. Without starts
    each request has as many."""

    q: torch.Tensor
    qv: torch.Tensor | None
    out: torch.Tensor | None
    starts: torch.Tensor | None
    longest: int
    batch: int

    def counts(self) -> torch.Tensor:
        """(batch,) queries of each request."""
        if self.starts is None:
            return torch.full((self.batch,), self.longest, device=self.q.device)
        return self.starts.diff()


@dataclass(frozen=True)
class CacheLayout:
    """Keys as (pages, page_size, kv_heads, dim): a cache that is not paged has a page per request, ragged keys one."""

    k: torch.Tensor
    v: torch.Tensor
    lengths: torch.Tensor
    first_key: torch.Tensor | None
    page_table: torch.Tensor | None


@dataclass(frozen=True)
class NewTokens:
    """The queries, rotated; lengths, and how many keys more every request has than these say; the append, or None."""

    q: torch.Tensor
    lengths: torch.Tensor
    each: int = 0
    append: Callable[[], None] | None = None
    arguments: AppendArguments | None = None


def kvcache_queries(
    name: str,
    q: torch.Tensor,
    qv: torch.Tensor | None,
    cu_seqlens_q: torch.Tensor | None,
    max_seqlen_q: int | None,
    out: torch.Tensor | None,
) -> KvcacheQueries:
    contract = Contract(name)
    if cu_seqlens_q is not None:
        contract.tensor("q", q, "tokens heads qk_dim")
        contract.tensor("cu_seqlens_q", cu_seqlens_q, "cu_seqlens_q", INT32)
        longest = len(q) if max_seqlen_q is None else max_seqlen_q
        return KvcacheQueries(q, qv, out, cu_seqlens_q, longest, len(cu_seqlens_q) - 1)
    contract.tensor("q", q, "batch queries heads qk_dim")
    batch, count = q.shape[:2]
    starts = None if count else torch.zeros(batch + 1, dtype=torch.int32, device=q.device)
    if out is not None:
        contract.tensor("out", out, "batch queries heads v_dim", FLOATS)
        contract.require(out.is_contiguous(), "out", "contiguous", out.stride(), "Allocate a contiguous one.")
        out = out.view(batch * count, *out.shape[2:])
    return KvcacheQueries(q.flatten(0, 1), None if qv is None else qv.flatten(0, 1), out, starts, count, batch)


def cache_layout(
    name: str,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_k: torch.Tensor | None,
    lengths: int | torch.Tensor | None,
    page_table: torch.Tensor | None,
    batch: int = 0,
    batch_idx: torch.Tensor | None = None,
    leftpad: torch.Tensor | None = None,
) -> CacheLayout:
    contract = Contract(name)
    if cu_seqlens_k is not None:
        remedy = "Ragged keys have cu_seqlens_k, paged ones a page_table and seqused_k."
        contract.require(page_table is None, "page_table", "None beside cu_seqlens_k", "a tensor", remedy)
        contract.tensor("cu_seqlens_k", cu_seqlens_k, "cu_seqlens_k", INT32)
        contract.tensor("k", k, "key_tokens kv_heads qk_dim")
        contract.tensor("v", v, "key_tokens kv_heads v_dim")
        used = lengths if isinstance(lengths, torch.Tensor) else cu_seqlens_k.diff()
        contract.tensor("seqused_k", used, "batch", INT32)
        return CacheLayout(k.unsqueeze(0), v.unsqueeze(0), used, cu_seqlens_k[:-1], None)
    contract.tensor("k_cache", k, "pages page_size kv_heads qk_dim")
    contract.tensor("v_cache", v, "pages page_size kv_heads v_dim")
    if page_table is None:
        contract.require(batch > 0 or len(k) == 0, "page_table", "given where keys are not ragged", None, "Pass one.")
        if batch_idx is None:
            expected = f"of {batch} requests, as q has"
            contract.require(len(k) >= batch, "k_cache", expected, len(k), "Pass cache_batch_idx or a page_table.")
            batch_idx = torch.arange(batch, dtype=torch.int32, device=k.device)
        contract.tensor("cache_batch_idx", batch_idx, "batch", INT32)
        page_table = batch_idx.unsqueeze(1)
    else:
        remedy = "A page table says where every key is."
        contract.require(batch_idx is None, "cache_batch_idx", "None beside page_table", "a tensor", remedy)
        contract.require(leftpad is None, "cache_leftpad", "None beside page_table", "a tensor", remedy)
        contract.tensor("page_table", page_table, "batch width", INT32)
    if not isinstance(lengths, torch.Tensor):
        filled = k.shape[1] * page_table.shape[1] if lengths is None else lengths
        lengths = torch.full((len(page_table),), filled, dtype=torch.int32, device=k.device)
    contract.tensor("cache_seqlens", lengths, "batch", INT32)
    if leftpad is not None:
        contract.tensor("cache_leftpad", leftpad, "batch", INT32)
        lengths = lengths - leftpad
    return CacheLayout(k, v, lengths, leftpad, page_table)


def new_tokens(
    name: str,
    queries: KvcacheQueries,
    cache: CacheLayout,
    k: torch.Tensor | None,
    v: torch.Tensor | None,
    cu_seqlens_k_new: torch.Tensor | None,
    cos: torch.Tensor | None,
    sin: torch.Tensor | None,
    rotary_seqlens: torch.Tensor | None,
    interleaved: bool,
    masking: Masking,
    k_descale: torch.Tensor | None,
    v_descale: torch.Tensor | None,
    check_values: bool,
) -> NewTokens:
    """What is appended and rotated before the attention; nothing is written yet."""
    contract = Contract(name)
    contract.require((cos is None) == (sin is None), "rotary_sin", "given with rotary_cos", "one alone", "Pass both.")
    contract.require((k is None) == (v is None), "v", "given with k", "one alone", "Pass both.")
    if k is None or v is None:
        remedy = "Without new keys there is nothing to rotate: pass a q that was rotated."
        contract.require(cos is None, "rotary_cos", "None without k", "a tensor", remedy)
        return NewTokens(queries.q, cache.lengths)
    if check_values:
        _check_new(contract, k, v)
    uniform = None
    if cu_seqlens_k_new is None:
        contract.tensor("k", k, "batch new kv_heads qk_dim")
        contract.tensor("v", v, "batch new kv_heads v_dim")
        uniform = k.shape[1]
        k, v = k.flatten(0, 1), v.flatten(0, 1)
        if cos is None and uniform and (uniform == 1 or (k_descale is None and v_descale is None)):
            return _appended_each(name, queries.q, cache, k, v, uniform, k_descale, v_descale, check_values)
        lengths = cache.lengths + uniform
    else:
        contract.tensor("cu_seqlens_k_new", cu_seqlens_k_new, "cu_seqlens_k_new", INT32)
        counts = cu_seqlens_k_new.diff()
        lengths = cache.lengths + counts
    first, page_size = cache.lengths if cache.first_key is None else cache.lengths + cache.first_key, cache.k.shape[1]
    decodes = uniform == 1  # row i of everything is request i's
    if not decodes:
        request, place = _places(lengths, len(k), uniform) if uniform else _places(counts, len(k))
    key = first if decodes else first[request] + place
    if check_values:
        _check_room(contract, cache, key)
    assert cache.page_table is not None  # only ragged keys have none, and nothing is appended to them
    if decodes:
        page = cache.page_table.gather(1, (key // page_size).long()[:, None])[:, 0]
    else:
        page = cache.page_table[request, key // page_size]
    slots = torch.add(key % page_size, page, alpha=page_size).long()
    rotary, asked, positions, q = None, None, None, queries.q
    if cos is not None and sin is not None:
        rotary = Rotary(cos, sin, interleaved)
        start = first if rotary_seqlens is None else rotary_seqlens
        positions = (start if decodes else start[request] + place).long()
        q = torch.empty_like(queries.q, memory_format=torch.contiguous_format)
        ordered = masking.right < UNBOUNDED or masking.left < UNBOUNDED
        of_query, i = _places(queries.counts(), len(q))
        asked = Queries(queries.q, (start[of_query] + i * ordered).long(), q)
    quantised = cache.k.dtype not in FLOATS
    arguments = AppendArguments(
        *(k, v, cache.k, cache.v, slots),
        positions=positions,
        rotary=rotary,
        queries=asked,
        k_scale=1.0 if not quantised or k_descale is None else k_descale if decodes else k_descale[request],
        v_scale=1.0 if not quantised or v_descale is None else v_descale if decodes else v_descale[request],
        k_out=None,
    )
    return NewTokens(q, lengths, append=partial(append, name, arguments, check_values=check_values))


def _appended_each(
    name: str,
    q: torch.Tensor,
    cache: CacheLayout,
    k: torch.Tensor,
    v: torch.Tensor,
    each: int,
    k_descale: torch.Tensor | None,
    v_descale: torch.Tensor | None,
    check_values: bool,
) -> NewTokens:
    """As many new tokens of every request, rotated before: the kernel finds where they go."""
    first = cache.lengths if cache.first_key is None else cache.lengths + cache.first_key
    if check_values:
        _check_room(Contract(name), cache, first + (each - 1))
    assert cache.page_table is not None
    scales = [1.0 if descale is None or cache.k.dtype in FLOATS else descale for descale in (k_descale, v_descale)]
    arguments = AppendArguments(
        *(k, v, cache.k, cache.v, None),
        positions=None,
        rotary=None,
        queries=None,
        k_scale=scales[0],
        v_scale=scales[1],
        k_out=None,
        places=Places(None, first, cache.page_table, each=each),
    )
    write = partial(append, name, arguments, check_values=check_values)
    return NewTokens(q, cache.lengths, each, write, arguments)


def _places(counts: torch.Tensor, tokens: int, uniform: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """(request, number in it) of each token; uniform: as many of every request."""
    if uniform:
        at = torch.arange(tokens, device=counts.device)
        return at // uniform, at % uniform
    numbers = torch.arange(len(counts), device=counts.device)
    request = torch.repeat_interleave(numbers, counts.long(), output_size=tokens)
    starts = counts.cumsum(0) - counts
    return request, torch.arange(tokens, device=counts.device) - starts[request]


def _check_room(contract: Contract, cache: CacheLayout, key: torch.Tensor) -> None:
    if cache.page_table is None:
        return
    capacity = cache.k.shape[1] * cache.page_table.shape[1]
    remedy = "Allocate pages for the new tokens first."
    contract.elements("cache_seqlens", key < capacity, f"such that k fits into {capacity} keys", key, remedy)


def _check_new(contract: Contract, *new: torch.Tensor) -> None:
    """New keys that a mask hides must be finite, too: 0 · NaN is NaN."""
    for name, tensor in zip(("k", "v"), new, strict=True):
        if tensor.numel():
            finite = bool(tensor.float().abs().amax().isfinite())
            contract.require(finite, name, "finite", "NaN or infinity", "Look for it in the projection.")
