"""FlashMLA's 656-byte record of a token: 512 e4m3 values, a float32 scale for each 128, 64 bfloat16 of RoPE."""

from __future__ import annotations

from dataclasses import dataclass

import torch

TILE = 128
NOPE, ROPE = 512, 64
TILES = NOPE // TILE
RECORD = NOPE + 4 * TILES + 2 * ROPE
"""Bytes."""


@dataclass(frozen=True)
class RecordViews:
    """Records (…, 656) taken apart, not copied: nope (…, 512) e4m3, scales (…, 4) float32, rope (…, 64) bfloat16."""

    nope: torch.Tensor
    scales: torch.Tensor
    rope: torch.Tensor


def taken_apart(records: torch.Tensor) -> RecordViews:
    nope, scales, rope = records.view(torch.uint8).split([NOPE, 4 * TILES, 2 * ROPE], -1)
    return RecordViews(nope.view(torch.float8_e4m3fn), scales.view(torch.float32), rope.view(torch.bfloat16))
