"""Formats of KV caches with a scale for each block of a row, and where the scales lie.

Source: SGLang 0.5.23 `layers/quantization/kvfp4_tensor.py`, fp4_kv_cache_quant_method.py, nvfp4_kv_cache.py and
`mem_cache/memory_pool.py`, MHATokenToKVPoolMXFP8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

ScaleLayout = Literal["slots", "pages", "interleaved", "swizzled"]
SCALE_LAYOUTS: tuple[ScaleLayout, ...] = ("slots", "pages", "interleaved", "swizzled")
"""Of the scales of a token's head. "slots": [slots, heads, blocks]. "pages": [pages, heads, page_size, blocks], as
TensorRT-LLM reads those of keys. "swizzled": the same, four tokens interleaved, as it reads those of values.
"interleaved": [pages, heads, 32, page_size / 32, blocks], the atom that FlashAttention 4's tensor cores read."""
ATOM = 32
"""Tokens next to each other in an interleaved atom."""


@dataclass(frozen=True)
class BlockFormat:
    """One format. x ≈ code · scale of its block · the layer's factor.

    Attributes:
        block: neighbouring values of a head with one scale.
        bits: of a code: 4 (e2m1, two in a byte, the first low) or 8 (e4m3).
        power_of_two: scales are e8m0, of which none cuts a value off; else e4m3.
        has_factor: a float32 factor per layer beside them.
    """

    name: str
    block: int
    bits: int
    power_of_two: bool
    has_factor: bool = False

    @property
    def largest(self) -> float:
        """Of a code."""
        return 6.0 if self.bits == 4 else 448.0

    def row_bytes(self, dim: int) -> int:
        """Of one head's codes."""
        return dim * self.bits // 8

    def scales(self, dim: int) -> int:
        """Of one head, a byte each."""
        return dim // self.block


FORMATS = {
    each.name: each
    for each in (
        BlockFormat("nvfp4", 16, 4, power_of_two=False, has_factor=True),
        BlockFormat("fp4_mx_block16", 16, 4, power_of_two=True),
        BlockFormat("mxfp8", 32, 8, power_of_two=True),
    )
}
"""By SGLang's names of `--kv-cache-dtype`."""


def scale_index(layout: ScaleLayout, slots: torch.Tensor, heads: int, blocks: int, page_size: int) -> torch.Tensor:
    """int64 [tokens, heads, blocks]: where the scales of these slots lie in their flat buffer."""
    slot = slots.to(torch.int64)[:, None, None]
    head = torch.arange(heads, device=slots.device)[:, None]
    block = torch.arange(blocks, device=slots.device)
    if layout == "slots":
        return (slot * heads + head) * blocks + block
    page, token = slot // page_size, slot % page_size
    first = (page * heads + head) * page_size
    if layout == "interleaved":
        return (first + token % ATOM * (page_size // ATOM) + token // ATOM) * blocks + block
    if layout == "swizzled":
        group = blocks // 4
        token, block = token // 4 * 4 + block // group, block % group * 4 + token % 4
    return (first + token) * blocks + block


def scale_shape(layout: ScaleLayout, slots: int, heads: int, blocks: int, page_size: int) -> tuple[int, ...]:
    """Of the scales of so many slots, whole pages."""
    if layout == "slots":
        return slots, heads, blocks
    if layout == "interleaved":
        return slots // page_size, heads, ATOM, page_size // ATOM, blocks
    return slots // page_size, heads, page_size, blocks
