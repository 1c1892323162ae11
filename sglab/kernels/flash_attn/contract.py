"""What FlashAttention's functions have in common: one form of a call, and which query sees which key."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from sglab.kernels.contract import FLOATS, INDEX, INT32, Contract, reads_values
from sglab.kernels.finite import all_finite
from sglab.kernels.fp8 import CACHES
from sglab.kernels.scoring import Scoring

LN2 = math.log(2)
UNBOUNDED = 1 << 30
"""A window or a chunk that hides nothing."""


@dataclass(frozen=True)
class Masking:
    """Which keys a query sees. The last query stands at the last key (bottom-right): query i of s_q at position
    p = i + s_k − s_q.

    Attributes:
        left, right: it sees keys p − left … p + right; causal is right = 0.
        chunk: and of these the keys of its own chunk of so many positions.
        prefix_lens: (batch,) multi-item scoring: a query at p ≥ this sees the prefix and its own item alone.
        token_pos_in_items: (batch, positions after the prefix) how far a token is from its item's delimiter, which
            counts as 0 and sees the prefix alone; None where there are no items.
    """

    left: int = UNBOUNDED
    right: int = UNBOUNDED
    chunk: int = UNBOUNDED
    prefix_lens: torch.Tensor | None = None
    token_pos_in_items: torch.Tensor | None = None

    def matrix(self, request: int, queries: int, keys: int, device: torch.device) -> Callable[[int, int], torch.Tensor]:
        """(first query, end) -> (queries, keys) bool, for one request."""
        key = torch.arange(keys, device=device)

        def visible(start: int, end: int) -> torch.Tensor:
            p = torch.arange(start, end, device=device)[:, None] + keys - queries
            seen = (key >= p - self.left) & (key <= p + self.right)
            if self.chunk < UNBOUNDED:
                first = p.div(self.chunk, rounding_mode="floor") * self.chunk
                seen &= (key >= first) & (key < first + self.chunk)
            if self.prefix_lens is not None and self.token_pos_in_items is not None:
                prefix = int(self.prefix_lens[request])
                places = self.token_pos_in_items[request].long()
                own = key > p - places[(p - prefix).clamp(0, len(places) - 1)]
                seen &= (key < prefix) | own | (p < prefix)
            return seen

        return visible


@dataclass(frozen=True)
class Ends:
    """Where requests' keys lie, as FlashInfer says it: request i's pages are those from indptr[i] to indptr[i + 1].

    Attributes:
        indptr: (batch + 1,) int32, in pages, or in keys where there are none.
        last: (batch,) int32: tokens in a request's last page; None where keys are not paged.
    """

    indptr: torch.Tensor
    last: torch.Tensor | None = None

    def lengths(self, page_size: int) -> torch.Tensor:
        """(batch,) int32 keys of each request."""
        counts = self.indptr.diff()
        if self.last is None:
            return counts
        return counts.mul_(page_size).add_(self.last).sub_(page_size).clamp_(min=0)  # of no pages: at most 0

    def first(self, page_size: int) -> torch.Tensor:
        """(batch,) int32: what is added to a key's number."""
        return self.indptr[:-1] if self.last is None else self.indptr[:-1] * page_size


@dataclass(frozen=True)
class FlashAttnArguments:
    """A checked call of any of FlashAttention's functions.

    Attributes:
        q: (tokens, heads, qk_dim), requests after one another.
        qv: (tokens, heads, v_dim), whose product with V adds to the scores (absorbed MLA), or None.
        k, v: (pages, page_size, kv_heads, dim); keys that are not paged are one page.
        starts: (batch + 1,) int32, where each request's queries start; None: each has max_seqlen_q of them.
        seqlens_q: (batch,) int32: only so many of them count; None for all.
        lens: (batch,) int32 keys of each request, without new_keys; or None, and `ends` says.
        first: (batch,) int32, added to each key's number to find its row; None for 0, or where `ends` says.
        page_table: (batch, width) int32, or None: all requests' keys lie in page 0.
        max_seqlen_q: most queries of any request.
        q_descale, k_descale, v_descale: (batch, kv_heads) float32 factors, or None.
        out: output (tokens, heads, v_dim).
        lse: output (heads, tokens) float32, the sink included; natural unless base2 says otherwise; any strides.
        num_splits: how many parts a request's keys are cut into; 0: a heuristic says.
        made_out: whether out was made for this call, and so overlaps nothing.
        ends: where requests' keys lie, in the place of lens and first.
        new_keys: keys of each request that were appended to those that lens counts.
        base2: whether the LSE is in base 2.
    """

    operator: str
    q: torch.Tensor
    qv: torch.Tensor | None
    k: torch.Tensor
    v: torch.Tensor
    starts: torch.Tensor | None
    seqlens_q: torch.Tensor | None
    lens: torch.Tensor | None
    first: torch.Tensor | None
    page_table: torch.Tensor | None
    max_seqlen_q: int
    masking: Masking
    scoring: Scoring
    q_descale: torch.Tensor | None
    k_descale: torch.Tensor | None
    v_descale: torch.Tensor | None
    out: torch.Tensor
    lse: torch.Tensor
    num_splits: int
    made_out: bool = False
    ends: Ends | None = None
    new_keys: int = 0
    base2: bool = False

    @cached_property
    def cu_seqlens_q(self) -> torch.Tensor:
        """(batch + 1,) int32, where each request's queries start."""
        if self.starts is not None:
            return self.starts
        return torch.arange(0, len(self.q) + 1, self.max_seqlen_q, dtype=torch.int32, device=self.device)

    @cached_property
    def seqlens_k(self) -> torch.Tensor:
        """(batch,) int32 keys of each request."""
        if self.ends is not None:
            return self.ends.lengths(self.page_size)
        assert self.lens is not None
        return self.lens + self.new_keys if self.new_keys else self.lens

    @cached_property
    def first_key(self) -> torch.Tensor | None:
        """(batch,) int32, added to each key's number to find its row; None for 0."""
        return self.first if self.ends is None else self.ends.first(self.page_size)

    @property
    def batch(self) -> int:
        return len(self.q) // self.max_seqlen_q if self.starts is None else len(self.starts) - 1

    def natural_to_base(self) -> None:
        """What an implementation does that has written a natural LSE."""
        if self.base2:
            self.lse.div_(LN2)

    @property
    def device(self) -> torch.device:
        return self.q.device

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.q.shape[1] // self.k.shape[2]

    @property
    def page_size(self) -> int:
        return self.k.shape[1]

    @property
    def capacity(self) -> int:
        """Keys that a request can have."""
        return self.page_size * (1 if self.page_table is None else self.page_table.shape[1])

    def queries_of(self, request: int) -> slice:
        first, end = self.cu_seqlens_q[request : request + 2].tolist()
        return slice(first, end if self.seqlens_q is None else first + int(self.seqlens_q[request]))

    def rows_of(self, request: int, lengths: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """(page, row in it) of each of a request's keys, int64; of its first lengths[request] if given."""
        length = (self.seqlens_k if lengths is None else lengths)[request]
        position = torch.arange(int(length), device=self.device)
        if self.first_key is not None:
            position = position + self.first_key[request]
        if self.page_table is None:
            return torch.zeros_like(position), position
        return self.page_table[request, position // self.page_size].long(), position % self.page_size


def check(a: FlashAttnArguments, check_values: bool | None, cached: torch.Tensor | None = None) -> None:
    """cached (batch,): of how many of a request's keys the contents are checked; None for all."""
    contract = Contract(a.operator)
    if contract.known:
        if not a.made_out:
            contract.apart("out", a.out, q=a.q, qv=a.qv, k=a.k, v=a.v)
        return
    contract.tensor("q", a.q, "tokens heads qk_dim", CACHES)
    contract.tensor("k", a.k, "pages page_size kv_heads qk_dim", CACHES)
    contract.tensor("v", a.v, "pages page_size kv_heads v_dim", CACHES)
    if a.qv is not None:
        contract.tensor("qv", a.qv, "tokens heads v_dim", CACHES)
        contract.same_dtype(q=a.q, qv=a.qv)
    contract.same_dtype(k=a.k, v=a.v)
    quantised = a.k.dtype not in FLOATS
    if a.q.dtype not in FLOATS or not quantised:
        contract.same_dtype(q=a.q, k=a.k)
    heads, kv_heads = contract.size("heads"), contract.size("kv_heads")
    expected = f"of a number of heads divisible by the {kv_heads} KV heads"
    remedy = "Every KV head serves the same number of query heads."
    contract.require(kv_heads > 0 and heads % kv_heads == 0, "q", expected, f"{heads} heads", remedy)
    contract.tensor("out", a.out, "tokens heads v_dim", FLOATS)
    contract.apart("out", a.out, q=a.q, qv=a.qv, k=a.k, v=a.v)
    if a.starts is not None:
        contract.tensor("cu_seqlens_q", a.starts, "cu_seqlens_q", INT32)
        contract.require(len(a.starts) > 0, "cu_seqlens_q", "at least 1 long", "length 0", "Start it with 0.")
    contract.fix("batch", a.batch, "q" if a.starts is None else "cu_seqlens_q")
    _check_places(contract, a)
    for name, lens in (("seqused_q", a.seqlens_q), ("first_key", a.first)):
        if lens is not None:
            contract.tensor(name, lens, "batch", INT32)
    if a.page_table is not None:
        contract.tensor("page_table", a.page_table, "batch width", INT32)
    for name, factor in (("q_descale", a.q_descale), ("k_descale", a.k_descale), ("v_descale", a.v_descale)):
        if factor is not None:
            contract.tensor(name, factor, "batch kv_heads", (torch.float32,), dense=False)
    contract.require(0 <= a.num_splits <= 128, "num_splits", "from 0 to 128", a.num_splits, "0 lets it be chosen.")
    a.scoring.check(contract)
    _check_masking(contract, a.masking)
    if reads_values(check_values, a.device):
        _check_values(contract, a)
        _check_finite(contract, a, cached)


def _check_places(contract: Contract, a: FlashAttnArguments) -> None:
    if a.ends is None:
        contract.tensor("seqused_k", a.lens, "batch", INT32)
        return
    contract.tensor("kv_indptr", a.ends.indptr, "batch_and_one", INT32)
    batch, expected = contract.size("batch"), "one longer than there are requests"
    long_enough = contract.size("batch_and_one") == batch + 1
    remedy = "It is where each request's keys begin, and where the last one's end."
    contract.require(long_enough, "kv_indptr", f"{expected}, {batch + 1}", len(a.ends.indptr), remedy)
    if a.ends.last is not None:
        contract.tensor("kv_last_page_len", a.ends.last, "batch", INT32)


def _check_masking(contract: Contract, masking: Masking) -> None:
    positive = masking.chunk > 0
    contract.require(positive, "attention_chunk", "positive, or 0 for none", masking.chunk, "Pass the chunk's tokens.")
    if masking.prefix_lens is not None:
        contract.tensor("prefix_lens", masking.prefix_lens, "batch", (*INDEX, torch.uint32))
        integers = (*INDEX, torch.uint16, torch.int16)
        contract.tensor("token_pos_in_items", masking.token_pos_in_items, "batch item_tokens", integers)


def _check_values(contract: Contract, a: FlashAttnArguments) -> None:
    steps = torch.cat([a.cu_seqlens_q[:1], a.cu_seqlens_q.diff()])
    remedy = "Use a cumulative sum of the lengths after a leading 0."
    contract.elements("cu_seqlens_q", steps >= 0, "non-negative and non-decreasing", a.cu_seqlens_q, remedy)
    tokens, longest = contract.size("tokens"), a.cu_seqlens_q.diff()
    contract.elements("cu_seqlens_q", a.cu_seqlens_q <= tokens, f"at most {tokens}", a.cu_seqlens_q, remedy)
    if a.seqlens_q is not None:
        fits = (a.seqlens_q >= 0) & (a.seqlens_q <= longest)
        contract.elements("seqused_q", fits, "within the request's queries", a.seqlens_q, "Lengths count tokens.")
        longest = a.seqlens_q
    most = int(longest.max()) if len(longest) else 0
    remedy = f"Pass {most}; queries beyond it would get no output."
    contract.require(a.max_seqlen_q >= most, "max_seqlen_q", "the longest request's queries", a.max_seqlen_q, remedy)
    first = 0 if a.first_key is None else a.first_key
    fits = (a.seqlens_k >= 0) & (first + a.seqlens_k <= a.capacity)
    expected = f"from 0 to {a.capacity}, the keys that there is room for, each request's start included"
    contract.elements("seqused_k", fits, expected, a.seqlens_k, "Widen the page table.")
    if a.page_table is not None:
        entry = torch.arange(a.page_table.shape[1], device=a.device)
        used = entry < ((first + a.seqlens_k + a.page_size - 1) // a.page_size)[:, None]
        inside = ~used | ((a.page_table >= 0) & (a.page_table < len(a.k)))
        remedy = "Entries past a request's last page may hold anything; these are read."
        contract.elements("page_table", inside, f"from 0 to {len(a.k) - 1}", a.page_table, remedy)


def _check_finite(contract: Contract, a: FlashAttnArguments, lengths: torch.Tensor | None) -> None:
    """0 · NaN is NaN: what a mask hides must be finite, too."""
    for request in range(contract.size("batch")):
        page, row = a.rows_of(request, lengths)
        for name, cache in (("k", a.k), ("v", a.v)):
            used = cache[page, row]
            if not all_finite(used):
                contract.fail(
                    name, "finite in every row that is read", f"NaN or infinity of request {request}", "Refill it."
                )
