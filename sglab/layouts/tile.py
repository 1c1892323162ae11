"""A two-dimensional tile with the place of every element: what the widget Layout draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sglab.words import plural

from .banks import LANES, BankUse, bank_use, phase_of
from .fragments import BITS, Fragment, fragment
from .layout import ComposedLayout, Layout, size_of
from .notation import parse

ORDERS = {"rows": "lanes along the rows", "columns": "lanes down the columns"}
MOST_ELEMENTS = 16_384
LANE_BYTES = (4, 8, 16)
Ints: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Tile:
    """Elements of a tile, row by row, and their places.

    Attributes:
        text: what it was made from.
        space: "smem" (bytes and banks), "registers" or "tmem".
        rows, columns: of the tile.
        element_bits: of one element.
        place_rows, place_columns: of the other side: lines of 128 bytes, lanes, or lanes of tensor memory; by
            elements of a line, registers (times parts), or columns of tensor memory.
        place: (elements,): row times `place_columns` plus column on that side; for shared memory the element's number.
        lane, register, part: (elements,): who takes it; -1 where none does. In shared memory: the lane of the access.
        group: (elements,): the access that takes it (shared memory), its register, or the warp that reads it.
        phase: (elements,): in which phase of its access it is served; 0 elsewhere.
        steps: a sentence for every group.
        uses: the banks of every access; empty outside shared memory.
        said: a sentence about the whole.
    """

    text: str
    space: str
    rows: int
    columns: int
    element_bits: int
    place_rows: int
    place_columns: int
    place: Ints
    lane: Ints
    register: Ints
    part: Ints
    group: Ints
    phase: Ints
    steps: tuple[str, ...]
    uses: tuple[BankUse, ...]
    said: str

    @property
    def lane_bytes(self) -> int:
        """Bytes that a lane takes in one access to shared memory; 0 elsewhere."""
        if self.space != "smem":
            return 0
        first = (self.group == 0) & (self.lane == 0)
        return max(1, int(first.sum()) * self.element_bits // 8)


def tile_of(what: str | Layout | ComposedLayout | Fragment, element: str = "f16", order: str = "columns",
            lane_bytes: int = 16) -> Tile:  # fmt: skip
    """A tile with the place of every element.

    Args:
        what: a layout, or its text as `parse` reads it; a fragment, or its name as `fragment` reads it. Of a layout,
            mode 0 are the rows and the other modes together the columns; a layout of one mode is one row.
        element: of a layout: its type, which says how wide an element is.
        order: of a layout, which lane takes what: "rows": neighbouring lanes along a row; "columns": down a column, as
            ldmatrix reads.
        lane_bytes: of a layout, bytes per lane: 4, 8 or 16; less where so many are not contiguous.

    Raises:
        ValueError: no such layout, fragment, element, order or width, or more than 16,384 elements.
    """
    if isinstance(what, str):
        names = ("mma", "ldmatrix", "stmatrix", "movmatrix", "wgmma", "tcgen05")
        what = fragment(what) if what.strip().lower().startswith(names) else parse(what)
    if isinstance(what, Fragment):
        return _of_fragment(what)
    if element not in BITS:
        raise ValueError(f"element: expected one of {', '.join(BITS)}, got {element!r}; choose one of these")
    if order not in ORDERS:
        raise ValueError(f"order: expected one of {', '.join(ORDERS)}, got {order!r}; choose one of these")
    if lane_bytes not in LANE_BYTES:
        raise ValueError(f"lane_bytes: expected 4, 8 or 16, got {lane_bytes!r}; choose one of these")
    return _of_layout(what, BITS[element], order, lane_bytes)


def _of_layout(layout: Layout | ComposedLayout, bits: int, order: str, lane_bytes: int) -> Tile:
    if layout.size > MOST_ELEMENTS:
        raise ValueError(
            f"layout {layout}: {layout.size:,} elements; at most {MOST_ELEMENTS:,} can be shown: use a tile of it"
        )
    shape = layout.shape
    rows = 1 if isinstance(shape, int) or len(shape) == 1 else size_of(shape[0])
    columns = layout.size // rows
    places = np.array([layout(i) for i in range(layout.size)], np.int64).reshape(columns, rows).T
    if places.max() * bits >= 8 << 18:
        raise ValueError(
            f"layout {layout}: reaches byte {int(places.max()) * bits // 8:,}; shared memory has 228 KiB per SM"
        )
    width, along = _vector(places, bits, lane_bytes)
    by_rows, by_columns = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    down, across = (rows, columns // width) if along else (rows // width, columns)
    at_row, at_column = (by_rows, by_columns // width) if along else (by_rows // width, by_columns)
    number = at_row * across + at_column if order == "rows" else at_column * down + at_row
    group, lane = number // LANES, number % LANES
    nbytes = max(1, width * bits // 8)
    bytes_at = places * bits // 8
    starts = np.zeros(down * across, np.int64)
    starts[number[:: 1 if along else width, :: width if along else 1].reshape(-1)] = bytes_at[
        :: 1 if along else width, :: width if along else 1
    ].reshape(-1)
    uses = tuple(bank_use(starts[i : i + LANES].tolist(), nbytes) for i in range(0, starts.size, LANES))
    phase = np.vectorize(lambda each: phase_of(int(each), nbytes))(lane)
    line = 1024 // bits
    total, least = sum(use.passes for use in uses), sum(use.least for use in uses)
    less = "" if nbytes >= lane_bytes or bits > 8 * lane_bytes else f" (no {lane_bytes} are contiguous everywhere)"
    said = (
        f"{layout.size:,} elements in {plural(len(uses), 'access', 'accesses')} of a warp, "
        f"{plural(nbytes, 'byte')} a lane{less}, "
        f"{ORDERS[order]}: {plural(total, 'pass', 'passes')} through the banks, {least} without conflicts."
    )
    said += _of_bytes(layout, bits)
    return Tile(
        text=str(layout), space="smem", rows=rows, columns=columns, element_bits=bits,
        place_rows=int(places.max()) // line + 1, place_columns=line, place=_flat(places), lane=_flat(lane),
        register=_flat(np.full_like(lane, -1)), part=_flat(number * 0), group=_flat(group), phase=_flat(phase),
        steps=tuple(_access(i, use, nbytes) for i, use in enumerate(uses)), uses=uses, said=said,
    )  # fmt: skip


def _of_bytes(layout: Layout | ComposedLayout, bits: int) -> str:
    """A swizzle of byte addresses, as TMA's are printed, taken for one of elements."""
    if not isinstance(layout, ComposedLayout):
        return ""
    swizzle, wanted = layout.swizzle, 4 - (bits // 8).bit_length() + 1
    if bits <= 8 or swizzle.base != 4 or swizzle.shift != 3:
        return ""
    return (
        f" {swizzle} permutes elements, here {2 * bits} bytes at a time; of byte addresses, as TMA and smem_ptr "
        f"have it, it is Sw<{swizzle.bits},{wanted},{swizzle.shift}> for elements of {bits} bits."
    )


def _vector(places: npt.NDArray[np.int64], bits: int, lane_bytes: int) -> tuple[int, bool]:
    """How many elements a lane takes at once, and whether they lie along a row: contiguous and aligned everywhere."""
    rows, columns = places.shape
    width = max(1, 8 * lane_bytes // bits)
    while width > 1:
        for along, extent in ((True, columns), (False, rows)):
            if extent % width == 0:
                line = places if along else places.T
                vectors = line.reshape(line.shape[0], -1, width)
                if (vectors - vectors[..., :1] == np.arange(width)).all() and (vectors[..., 0] % width == 0).all():
                    return width, along
        width //= 2
    return 1, True


def _access(number: int, use: BankUse, nbytes: int) -> str:
    lanes = sum(map(len, use.phases))
    begin = f"Access {number + 1}: {plural(lanes, 'lane')} of {plural(nbytes, 'byte')} in {plural(use.least, 'phase')}"
    if use.passes == use.least:
        return f"{begin}: {plural(use.passes, 'pass', 'passes')}, no bank conflict."
    return f"{begin}: {use.passes} passes instead of {use.least}, bank conflicts of {-(-use.passes // use.least)} ways."


def _of_fragment(made: Fragment) -> Tile:
    owners = np.array([owner for _, _, owner in made.owners()], np.int64)
    lane, register, part = owners.T
    width = made.registers * made.parts
    in_registers = made.space == "registers"
    group = register if in_registers else lane // 32
    said = f"{made.rows} × {made.columns} of {made.element}: {made.instruction}."
    if in_registers:
        holder = "thread" if made.lanes > 32 else "lane"
        steps = [
            f"Register {i} of every {holder}: {plural(made.parts, 'element')} of {made.element}."
            for i in range(made.registers)
        ]
    else:
        steps = [f"Lanes {32 * i}–{32 * i + 31}: what warp {i} of a warpgroup can read." for i in range(4)]
    return Tile(
        text=made.name, space=made.space, rows=made.rows, columns=made.columns,
        element_bits=32 // made.parts if made.element not in BITS else BITS[made.element],
        place_rows=made.lanes, place_columns=width, place=_flat(lane * width + register * made.parts + part),
        lane=_flat(lane), register=_flat(register), part=_flat(part), group=_flat(group), phase=_flat(lane * 0),
        steps=tuple(steps), uses=(), said=said,
    )  # fmt: skip


def _flat(values: npt.NDArray[np.int64]) -> Ints:
    return np.ascontiguousarray(values.reshape(-1), np.int32)
