"""Who holds what: of a request's slot s rank s % size has the keys, in row s // size of its pool.

The allocator's pages are `size` times a rank's, so a request's token t has a slot that is t modulo `size`, and a rank's
tokens lie densely in pages of its own: on each rank a request is a shorter request.
"""

from __future__ import annotations

import torch


def dcp_lens(lens: torch.Tensor, size: int, rank: int, start: torch.Tensor | None = None) -> torch.Tensor:
    """How many of each request's tokens a rank has: of the first `lens`, or of so many from `start` on."""
    if start is None:
        return (lens + (size - 1 - rank)) // size
    return dcp_lens(start + lens, size, rank) - dcp_lens(start, size, rank)


def own_rows(slots: torch.Tensor, size: int, rank: int) -> torch.Tensor:
    """The rows of a rank's pool that new tokens are written to; those of other ranks' tokens are 0, the dummy page's."""
    return torch.where(slots % size == rank, slots // size, 0)


def own_table(req_to_token: torch.Tensor, size: int, rank: int) -> torch.Tensor:
    """[rows, slots] -> [rows, a rank's rows]: of each request's tokens those that a rank has, in order."""
    return req_to_token[:, rank::size] // size


def own_heads(kv_heads: int, size: int, rank: int) -> slice:
    """Of the KV heads that ranks share those that a rank's query heads attend to."""
    first = rank * kv_heads // size
    return slice(first, max((rank + 1) * kv_heads // size, first + 1))


def own_positions(positions: torch.Tensor, size: int, rank: int) -> torch.Tensor:
    """Of positions in requests, −1 for none, those that a rank has, as positions among its own tokens; else −1."""
    return torch.where((positions >= 0) & (positions % size == rank), positions // size, -1)
