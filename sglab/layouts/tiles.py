"""Operand tiles in shared memory, as descriptors of wgmma and tcgen05 describe them and TMA writes them."""

from __future__ import annotations

from .layout import ComposedLayout, Layout, Swizzle

SPANS = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
"""Swizzle -> bytes of one row of its pattern."""


def shared_tile(
    swizzle: str, rows: int, k: int, element_bits: int = 16, *, mn_major: bool = False
) -> Layout | ComposedLayout:
    """A dense operand of `rows` (M or N) by `k` elements in the canonical layout, atoms one after the other.

    Args:
        swizzle: "none", "32B", "64B" or "128B".
        rows, k: multiples of what an atom holds.
        element_bits: 4, 8, 16 or 32.
        mn_major: rows are contiguous, not k.

    Returns:
        (row, k) to the element's number in the tile; a swizzled one from an address aligned to the pattern.

    Raises:
        ValueError: no such swizzle, or sizes that no atom divides.
    """
    if swizzle not in SPANS:
        raise ValueError(f"swizzle: expected one of {', '.join(SPANS)}, got {swizzle!r}; choose one of these")
    if element_bits not in (4, 8, 16, 32):
        raise ValueError(f"element_bits: expected 4, 8, 16 or 32, got {element_bits}")
    chunk, span = 128 // element_bits, 8 * SPANS[swizzle] // element_bits
    along, across = (rows, k) if mn_major else (k, rows)
    if along % span or across % 8 or min(along, across) < 1:
        names = ("rows", "k") if mn_major else ("k", "rows")
        raise ValueError(
            f"{names[0]}: expected a multiple of {span} ({SPANS[swizzle]} bytes of {element_bits} bits) and {names[1]} "
            f"a multiple of 8, got {along} and {across}"
        )
    if mn_major:
        layout = Layout(((span, rows // span), (8, k // 8)), ((1, 8 * span), (span, 8 * rows)))
    else:
        layout = Layout(((8, rows // 8), (span, k // span)), ((span, 8 * span), (1, rows * span)))
    bits = {"none": 0, "32B": 1, "64B": 2, "128B": 3}[swizzle]
    return ComposedLayout(Swizzle(bits, chunk.bit_length() - 1, 3), layout) if bits else layout
