"""Layout: a tile's coordinates beside the addresses and banks, or the lanes and registers, where its elements lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import traitlets

from sglab import layouts
from sglab.layouts.fragments import BITS
from sglab.layouts.tile import LANE_BYTES, ORDERS, Tile

from .base import Widget, asset, command

MODEL = {
    "smem": "Addresses, banks and passes follow from the layout, as the ISA defines them; no kernel was run.",
    "registers": "The PTX ISA's fragment; the emulator's instruction reads and writes the same.",
    "tmem": "The PTX ISA's data path; the emulator's tensor core writes the same.",
}
EXAMPLES = {
    "(8,(4,2)):(4,(1,32))": "CuTe: a nested mode",
    "(32,32):(32,1)": "CuTe: 32 × 32, rows contiguous",
    "(32,32):(33,1)": "CuTe: the same, each row padded",
    "Sw<3,4,3> o smem_ptr[16b](unset) o (8,64):(64,1)": "CuTe: a swizzle of bytes, as it prints it",
    "logical_divide((8,16):(16,1), (4,8):(1,8))": "CuTe: a tile divided",
}
SHARED = {"128B": (32, 64), "64B": (32, 32), "32B": (32, 16), "none": (32, 16)}
"""Swizzle -> rows and k of a tile of f16 that a menu offers."""


class Layout(Widget):
    """Where the elements of a tile lie, and who takes them: type a layout, or name an instruction's fragment.

    Args:
        layout: CuTe's notation as `sglab.layouts.parse` reads it, `(8,(4,2)):(4,(1,32))`;
            the name of a fragment as `sglab.layouts.fragment` reads it, `mma.m16n8k16.f16.A`; or one of their objects.
        element: of a layout: the elements' type.
        order: of a layout, how a warp reads it: "columns" (lanes down a column, as ldmatrix) or "rows".
        lane_bytes: of a layout: how much a lane takes at once: 4, 8 or 16 bytes.

    Attributes:
        tile: what is shown, as `sglab.layouts.tile_of` gives it.

    Raises:
        ValueError: as `sglab.layouts.tile_of`.
    """

    bundle = "layout"
    format = 1
    _module = asset("layout.js")
    _css = asset("layout.css")

    shown = traitlets.Dict(help="what is shown, see `_shown`").tag(sync=True)
    offered: traitlets.List[Any] = traitlets.List(help="[text, what it is] for the menu").tag(sync=True)
    elements: traitlets.List[Any] = traitlets.List(help="types of elements").tag(sync=True)

    def __init__(
        self,
        layout: str | layouts.Layout | layouts.ComposedLayout | layouts.Fragment = "Sw<3,3,3> o (32,64):(64,1)",
        element: str = "f16",
        *,
        order: str = "columns",
        lane_bytes: int = 16,
    ) -> None:
        super().__init__(offered=_offered(), elements=list(BITS))
        self._look_at(layout, element, order, lane_bytes)

    @command
    def show(
        self,
        layout: str | None = None,
        element: str | None = None,
        order: str | None = None,
        lane_bytes: int | None = None,
    ) -> None:
        """Shows another layout, or the same by other elements or another access. A refused call changes nothing."""
        now = self.shown
        self._look_at(
            now["asked"] if layout is None else layout,
            now["element"] if element is None else element,
            now["order"] if order is None else order,
            now["laneBytes"] if lane_bytes is None else lane_bytes,
        )

    def _look_at(self, layout: Any, element: str, order: str, lane_bytes: int) -> None:
        tile = layouts.tile_of(layout, element, order, lane_bytes)
        self.tile = tile
        cells = np.stack([tile.place, tile.lane, tile.register, tile.part, tile.group, tile.phase])
        self.publish(
            {"cells": cells},
            shown=_shown(tile, layout if isinstance(layout, str) else tile.text, element, order, lane_bytes),
            header={
                "title": "Layout",
                "subject": f"{tile.text}, {tile.rows} × {tile.columns}"
                + (f" of {element}" if tile.space == "smem" else ""),
                "badge": {"text": "layout" if tile.space == "smem" else "PTX ISA", "title": MODEL[tile.space]},
            },
        )


def _offered() -> list[list[str]]:
    made = [
        (str(layouts.shared_tile(name, rows, k, mn_major=False)), f"shared memory: {_swizzled(name)}, K-major f16")
        for name, (rows, k) in SHARED.items()
    ]
    made.append((str(layouts.shared_tile("128B", 64, 16, mn_major=True)), "shared memory: 128B swizzle, MN-major f16"))
    return [list(each) for each in (*made, *layouts.FRAGMENTS.items(), *EXAMPLES.items())]


def _swizzled(name: str) -> str:
    return "no swizzle" if name == "none" else f"{name} swizzle"


def _shown(tile: Tile, asked: str, element: str, order: str, lane_bytes: int) -> dict[str, Any]:
    """What the page knows of a tile besides its cells."""
    return {
        "asked": asked,
        "text": tile.text,
        "space": tile.space,
        "rows": tile.rows,
        "columns": tile.columns,
        "elementBits": tile.element_bits,
        "placeRows": tile.place_rows,
        "placeColumns": tile.place_columns,
        "parts": max(1, int(tile.part.max()) + 1),
        "element": element,
        "order": order,
        "orders": [list(each) for each in ORDERS.items()],
        "laneBytes": lane_bytes,
        "laneBytesOffered": list(LANE_BYTES),
        "takenBytes": tile.lane_bytes,
        "steps": list(tile.steps),
        "passes": [use.passes for use in tile.uses],
        "least": [use.least for use in tile.uses],
        "said": tile.said,
    }
