"""CSR lengths of a paged batch: what counts pages and what counts tokens.

Sources: FlashInfer 0.7.2 `flashinfer/page.py` (`get_seq_lens`) and `include/flashinfer/page.cuh`
(`paged_kv_t::get_length`); SGLang 0.5.9 `flashinfer_backend.py` (page_size 1, so its `kv_indptr` counts tokens).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sglab.planning import check
from sglab.planning.arith import ceil_div, exclusive_cumsum

Int32Array = NDArray[np.int32]


def num_pages(seq_lens: ArrayLike, page_size: int) -> Int32Array:
    """Pages per request: ceil(tokens / page_size), int32 (batch,)."""
    tokens = check.lengths("seq_lens", seq_lens)
    page_size = check.integer("page_size", page_size, minimum=1)
    return ceil_div(tokens, page_size).astype(np.int32)


def page_indptr(seq_lens: ArrayLike, page_size: int) -> Int32Array:
    """`kv_indptr` as FlashInfer's planners take it: running total of *pages*, int32 (batch + 1,)."""
    return exclusive_cumsum(num_pages(seq_lens, page_size).astype(np.int64)).astype(np.int32)


def token_indptr(seq_lens: ArrayLike) -> Int32Array:
    """`qo_indptr`, or `kv_indptr` at page_size 1: running total of *tokens*, int32 (batch + 1,)."""
    return exclusive_cumsum(check.lengths("seq_lens", seq_lens)).astype(np.int32)


def last_page_len(seq_lens: ArrayLike, page_size: int) -> Int32Array:
    """Tokens on each request's last page, 1 … page_size, or 0 for an empty request; int32 (batch,)."""
    tokens = check.lengths("seq_lens", seq_lens)
    page_size = check.integer("page_size", page_size, minimum=1)
    return np.where(tokens > 0, (tokens - 1) % page_size + 1, 0).astype(np.int32)


def get_seq_lens(kv_indptr: ArrayLike, kv_last_page_len: ArrayLike, page_size: int) -> Int32Array:
    """Tokens per request from pages: max(pages - 1, 0) · page_size + last page, int32 (batch,).

    A request without pages gets its `kv_last_page_len`, which therefore has to be 0, whereas `PagedKV.get_length`
    ignores that entry.
    """
    pages = np.diff(check.indptr("kv_indptr", kv_indptr))
    last = check.lengths("kv_last_page_len", kv_last_page_len)
    check.same_length("kv_last_page_len", last, "kv_indptr", pages.size)
    page_size = check.integer("page_size", page_size, minimum=1)
    return (np.maximum(pages - 1, 0) * page_size + last).astype(np.int32)
