"""Index arithmetic of a paged KV cache.

Source: FlashInfer 0.7.2 `include/flashinfer/page.cuh` (`paged_kv_t`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sglab.planning import check
from sglab.planning.uint_fastdiv import UintFastDiv

Strides = tuple[int, int, int]


@dataclass(frozen=True)
class PagedKV:
    """A paged KV cache: where the element (page, head, entry, feature) lies, in elements from the start of the pool.

    Pool layout: NHD is (pages, page_size, num_heads, head_dim), HND is (pages, num_heads, page_size, head_dim).
    Strides are (page, entry, head), in elements; K and V may differ.
    """

    num_heads: int
    page_size: int
    head_dim: int
    indices: NDArray[np.int32]
    indptr: NDArray[np.int32]
    last_page_len: NDArray[np.int32]
    k_strides: Strides
    v_strides: Strides

    @classmethod
    def contiguous(
        cls,
        *,
        num_heads: int,
        page_size: int,
        head_dim: int,
        layout: str,
        indices: ArrayLike,
        indptr: ArrayLike,
        last_page_len: ArrayLike,
    ) -> PagedKV:
        """A pool without gaps, with `layout` "NHD" or "HND"."""
        check.choice("layout", layout, ("NHD", "HND"))
        for name, value in (("num_heads", num_heads), ("page_size", page_size), ("head_dim", head_dim)):
            check.integer(name, value, minimum=1)
        stride_n = head_dim if layout == "HND" else num_heads * head_dim
        stride_h = page_size * head_dim if layout == "HND" else head_dim
        strides = (num_heads * page_size * head_dim, stride_n, stride_h)
        pages = check.indptr("indptr", indptr)
        page_ids = np.asarray(indices, dtype=np.int32)
        if page_ids.size < pages[-1]:
            raise check.fail("indices", f"at least {pages[-1]} page ids", f"{page_ids.size}", "give one id per page")
        last = check.lengths("last_page_len", last_page_len)
        check.same_length("last_page_len", last, "indptr", pages.size - 1)
        return cls(
            num_heads, page_size, head_dim, page_ids, pages.astype(np.int32), last.astype(np.int32), strides, strides
        )

    def get_length(self, batch_idx: int) -> int:
        """Tokens of a request; 0 without pages, regardless of `last_page_len`."""
        pages = int(self.indptr[batch_idx + 1]) - int(self.indptr[batch_idx])
        return 0 if pages == 0 else (pages - 1) * self.page_size + int(self.last_page_len[batch_idx])

    def get_elem_offset(self, page_idx: int, head_idx: int, entry_idx: int, feat_idx: int) -> int:
        """K element's offset; `page_idx` is a page of the pool, `entry_idx` a token within it."""
        return _offset(self.k_strides, page_idx, head_idx, entry_idx, feat_idx)

    def get_v_elem_offset(self, page_idx: int, head_idx: int, entry_idx: int, feat_idx: int) -> int:
        """V element's offset."""
        return _offset(self.v_strides, page_idx, head_idx, entry_idx, feat_idx)

    def protective_get_k_offset(
        self, page_iter: int, head_idx: int, entry_idx: int, feat_idx: int, last_indptr: int
    ) -> int:
        """K offset through the page table, or 0 when `page_iter` is past the table's end.

        A tile's overhang so reads the pool's first element, which is always there, rather than an address from a
        page id beyond `indices`.
        """
        if page_iter >= last_indptr:
            return 0
        return self.get_elem_offset(int(self.indices[page_iter]), head_idx, entry_idx, feat_idx)

    def protective_get_v_offset(
        self, page_iter: int, head_idx: int, entry_idx: int, feat_idx: int, last_indptr: int
    ) -> int:
        """V offset through the page table, or 0 past its end."""
        if page_iter >= last_indptr:
            return 0
        return self.get_v_elem_offset(int(self.indices[page_iter]), head_idx, entry_idx, feat_idx)

    def locate(self, batch_idx: int, position: int) -> tuple[int, int]:
        """(page_iter, entry_idx) of a request's token, by the fast division that the append kernel does."""
        length = self.get_length(batch_idx)
        if not 0 <= position < length:
            raise check.fail("position", f"0 to {length - 1}", position, f"request {batch_idx} has {length} tokens")
        flat = int(self.indptr[batch_idx]) * self.page_size + position
        return UintFastDiv.of(self.page_size).divmod(flat)


def _offset(strides: Strides, page_idx: int, head_idx: int, entry_idx: int, feat_idx: int) -> int:
    stride_page, stride_n, stride_h = strides
    return page_idx * stride_page + head_idx * stride_h + entry_idx * stride_n + feat_idx
