"""Signed four-bit integers, two in a byte: the low four bits first. SGLang's W4A8 experts have them."""

from __future__ import annotations

import torch


def pack_int4(q: torch.Tensor) -> torch.Tensor:
    """Integers -8..7 [..., 2 n] -> int8 [..., n]."""
    low, high = q[..., 0::2].to(torch.uint8) & 15, q[..., 1::2].to(torch.uint8) & 15
    return (low | (high << 4)).view(torch.int8)


def unpack_int4(packed: torch.Tensor) -> torch.Tensor:
    """int8 [..., n] -> int8 [..., 2 n], sign extended."""
    bits = packed.view(torch.uint8)
    nibbles = torch.stack((bits & 15, bits >> 4), -1).flatten(-2).to(torch.int8)
    return nibbles - ((nibbles & 8) << 1)


def interleave_scales(scales: torch.Tensor) -> torch.Tensor:
    """[experts, rows, groups] -> [experts, groups / 4, rows · 4]; one by one where groups are no multiple of 4."""
    step = 4 if scales.shape[2] % 4 == 0 else 1
    return scales.unflatten(2, (-1, step)).transpose(1, 2).flatten(2)
