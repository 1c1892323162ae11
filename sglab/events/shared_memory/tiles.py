"""Tiles and areas of a CTA's shared memory: bytes with a logical shape, bytes with a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sglab.gpu.names import variable_name

ELEMENT_BITS = {"u16": 16, "f16": 16, "bf16": 16, "u64": 64, "s64": 64, "f64": 64, "b4x16": 4}
NARROW = {"u8", "s8", "e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "b4x16_p64", "b6x16_p32"}


@dataclass(frozen=True)
class SharedTile:
    """Bytes with a logical shape: a tensor map's box, or an operand of an MMA. Sizes in elements and bytes."""

    source: str
    name: str
    start: int
    bytes: int
    swizzle: str
    rows: int
    k: int
    element: str
    element_bits: int
    bits: str = "0x0"
    flavour: str = "tcgen05"
    major: str = "K"
    kind: str = ""
    idesc: int = 0
    cta_group: int = 1
    operand: str = ""
    map: int = -1


@dataclass(frozen=True)
class Area:
    kind: str
    name: str
    start: int
    bytes: int
    tile: int = -1


def element_bits(name: str) -> int:
    return 8 if name in NARROW else ELEMENT_BITS.get(name, 32)


def window_areas(variables: Sequence[tuple[str, int, int]], dynamic: int, nbytes: int) -> list[Area]:
    """The reserved kilobyte, the static variables and the dynamic region of a window of `nbytes` bytes."""
    areas = [Area("reserved", "reserved by the system", 0, min(1024, nbytes))]
    for name, offset, size in variables:
        if size:
            areas.append(Area("symbol", variable_name(name), offset, size))
    names = [variable_name(name) for name, _, size in variables if not size]
    if nbytes > dynamic:
        label = f"dynamic shared memory{f' ({names[0]})' if names and names[0] != 'dynamic' else ''}"
        areas.append(Area("dynamic", label, dynamic, nbytes - dynamic))
    return areas
