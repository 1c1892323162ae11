"""PagedRows: which slots every query row attends to; and how page tables and windows become one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch

from sglab.kernels.scoring import Scoring


class GraphPlanner(Protocol):
    """FlashInfer's wrappers for one graph: see flashinfer_graphs.GraphPlans."""

    def refuses(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows, scoring: Scoring
    ) -> str | None: ...
    def run(
        self, q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows, scoring: Scoring
    ) -> tuple[torch.Tensor, torch.Tensor]: ...


@dataclass(frozen=True)
class PagedRows:
    """Query rows and key slots of a batch, request after request.

    Causality is aligned at the end (bottom-right): the last query row of a request sees its last key.
    """

    qo_indptr: torch.Tensor
    """int32 [B + 1]: where each request's query rows start."""
    kv_indptr: torch.Tensor
    """int32 [B + 1]: where each request's slots start in `kv_indices`."""
    kv_indices: torch.Tensor
    """int32 or int64, slots; what follows kv_indptr[B] is not read."""
    max_q: int
    """Most query rows of a request, known on the host."""
    causal: bool = True
    """False: every row sees every key of its request."""
    window: int = -1
    """A row at p sees keys p − window .. p, without causality p − window .. p + window; −1: all of them."""
    custom_mask: torch.Tensor | None = None
    """bool or uint8, flat: per request (query rows, keys), instead of causality."""
    mask_indptr: torch.Tensor | None = None
    """int64 [B + 1]: where each request's mask starts."""
    first_positions: torch.Tensor | None = None
    """int64 [B]: position of each request's first slot; None: 0. Positions matter to a temperature alone."""
    graph_plans: GraphPlanner | None = None
    """FlashInfer's wrappers for a graph over these arrays; None: they are of one pass."""

    @property
    def batch(self) -> int:
        return len(self.qo_indptr) - 1

    def windowed(self) -> PagedRows:
        """One query row per request: the window as fewer slots."""
        if self.window < 0:
            return self
        indptr, indices, dropped = last_slots(self.kv_indptr, self.kv_indices, self.window + 1)
        return replace(self, kv_indptr=indptr, kv_indices=indices, window=-1, first_positions=dropped)


def indptr_of(lens: torch.Tensor) -> torch.Tensor:
    """int32 [B + 1]: 0 and the running sum of lengths."""
    return torch.nn.functional.pad(torch.cumsum(lens, 0, dtype=torch.int32), (1, 0))


def slots_of_table(
    table: torch.Tensor, lens: torch.Tensor, page_size: int, total: int | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """A page table as a CSR of slots, by device work alone, so that a graph's replay makes it again.

    Args:
        table: int [B, pages], page numbers; entries after a request's last page are not read.
        lens: int [B], tokens of each request.
        total: their sum if the host knows it; else the result is as long as the table allows.

    Returns:
        kv_indptr int32 [B + 1] and kv_indices int64 [total]; entries after the last request's are 0.
    """
    indptr = indptr_of(lens)
    batch, width = table.shape
    size = batch * width * page_size if total is None else total
    if not batch or not width:
        return indptr, torch.zeros(size, dtype=torch.int64, device=table.device)
    at = torch.arange(size, device=table.device)
    request = torch.searchsorted(indptr[1:].to(torch.int64), at, right=True).clamp(max=batch - 1)
    offset = at - indptr[request]
    inside = offset < lens[request]
    pages = table[request, (offset // page_size).clamp(0, width - 1)].to(torch.int64)
    return indptr, torch.where(inside, pages * page_size + offset % page_size, 0)


def last_slots(
    indptr: torch.Tensor, indices: torch.Tensor, count: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Each request's last `count` slots: kv_indptr, kv_indices and how many slots were left out before them [B]."""
    lens = indptr.diff()
    kept = lens.clamp(max=count)
    made = indptr_of(kept)
    at = torch.arange(min(len(indices), len(kept) * count), device=indices.device)
    request = torch.searchsorted(made[1:].to(torch.int64), at, right=True).clamp(max=max(len(kept) - 1, 0))
    offset = at - made[request] + (lens - kept)[request] + indptr[request]
    return made, indices[offset.clamp(0, max(len(indices) - 1, 0))], (lens - kept).to(torch.int64)
