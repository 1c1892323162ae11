"""Small integers in 32-bit words: number i of a word lies at bit i · bits, the first one lowest."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def pack(values: torch.Tensor, bits: int, dim: int, order: Sequence[int] | None = None) -> torch.Tensor:
    """Non-negative integers -> int32, 32 / bits of them in a word along `dim`.

    Args:
        order: which of a word's neighbours lies at each position; None: as they come.
    """
    per_word = 32 // bits
    groups = values.to(torch.int64).movedim(dim, -1).unflatten(-1, (-1, per_word))
    if order is not None:
        groups = groups[..., list(order)]
    shifts = torch.arange(0, 32, bits, device=values.device)
    words = (groups << shifts).sum(-1)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32).movedim(-1, dim).contiguous()


def unpack(words: torch.Tensor, bits: int, dim: int, order: Sequence[int] | None = None) -> torch.Tensor:
    """The inverse of `pack`: int32 values from 0 to 2^bits - 1."""
    shifts = torch.arange(0, 32, bits, device=words.device)
    groups = (words.movedim(dim, -1)[..., None].to(torch.int64) >> shifts) & (2**bits - 1)
    if order is not None:
        groups = groups[..., [list(order).index(i) for i in range(len(order))]]
    return groups.flatten(-2).movedim(-1, dim).to(torch.int32)
