"""The index-K cache of sparse attention: a page holds all its tokens' e4m3 keys and then all their float32 scales.

A page of 64 tokens with 128 dims has 64 · 128 = 8,192 bytes of keys and 256 of scales: 8,448, nothing interleaved.
"""

from __future__ import annotations

import torch

DIM = 128
SCALE_BYTES = 4


def page_bytes(page_size: int) -> int:
    return page_size * (DIM + SCALE_BYTES)


def keys_and_scales(buf: torch.Tensor, page_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Views of a cache (pages, page_bytes): keys (pages, page_size, 128) e4m3, scales (pages, page_size) float32."""
    keys, scales = buf.view(torch.uint8).split([page_size * DIM, page_size * SCALE_BYTES], 1)
    return keys.view(torch.float8_e4m3fn).unflatten(1, (page_size, DIM)), scales.view(torch.float32)
