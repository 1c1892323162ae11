"""ReqToTokenPool: the first of two mappings, request -> token slots; the KV pool maps a slot to its rows.

Source: SGLang 0.5.9 `mem_cache/memory_pool.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sglab.engine import arguments
from sglab.engine.cache.holder import RowHolder


class ReqToTokenPool:
    """Rows of token slots, one row per running request.

    Attributes:
        req_to_token: int32 [size, max_context_len]; entry [r, t] is the KV slot of token t of the request in row r.
            Entries at and beyond the request's length are stale: nothing clears them.
        free_slots: rows that no request owns, taken from the front, given back at the end.
        holders: row -> the request that owns it.
        replaced: rows in which others took the place of slots that a pass may have read (`replace`); whoever keeps
            a copy of the table takes them out again.
        with_dummy: `req_to_token` and one row more, which no request gets: a graph's padded rows write there.
    """

    def __init__(self, size: int, max_context_len: int, device: str | torch.device = "cpu") -> None:
        arguments.integer("size", size, 1)
        arguments.integer("max_context_len", max_context_len, 1)
        self.size = size
        self.max_context_len = max_context_len
        self.device = torch.device(device)
        self.with_dummy = torch.zeros((size + 1, max_context_len), dtype=torch.int32, device=self.device)
        self.req_to_token = self.with_dummy[:size]
        self.clear()

    def write(self, indices: Any, values: torch.Tensor) -> None:
        """Store slots: `indices` is (row, slice) or (rows, columns)."""
        self.req_to_token[indices] = values.to(torch.int32)

    def replace(self, row: int, slots: torch.Tensor) -> None:
        """Let a running request's first tokens be in other slots."""
        self.write((row, slice(0, len(slots))), slots)
        self.replaced.add(row)

    def available_size(self) -> int:
        return len(self.free_slots)

    def alloc(self, reqs: Sequence[RowHolder]) -> list[int] | None:
        """Give every request a row; a chunked prefill keeps the one it has. None, changing nothing, if too few."""
        need = sum(req.req_pool_idx is None for req in reqs)
        if need > len(self.free_slots):
            return None
        rows = []
        for req in reqs:
            if req.req_pool_idx is None:
                req.req_pool_idx = self.free_slots.pop(0)
                self.holders[req.req_pool_idx] = req
            rows.append(req.req_pool_idx)
        return rows

    def free(self, req: RowHolder) -> None:
        """Take the request's row back.

        Raises:
            ValueError: it owns none, or another owner already freed it.
        """
        if req.req_pool_idx is None or req.req_pool_idx in self.free_slots:
            raise ValueError(f"request {req.rid!r} owns no row of ReqToTokenPool (row {req.req_pool_idx})")
        self.free_slots.append(req.req_pool_idx)
        self.holders.pop(req.req_pool_idx, None)
        self.replaced.discard(req.req_pool_idx)
        req.req_pool_idx = None

    def clear(self) -> None:
        """Forget every owner."""
        self.free_slots = list(range(self.size))
        self.holders: dict[int, RowHolder] = {}
        self.replaced: set[int] = set()
