"""Where elements of a tile lie: CuTe's layouts, shared-memory swizzles, banks, and the fragments of tensor-core
instructions. Pure functions of coordinates; nothing here runs or needs a kernel."""

from .algebra import (
    coalesce,
    complement,
    composition,
    left_inverse,
    logical_divide,
    logical_product,
    right_inverse,
    zipped_divide,
)
from .banks import BankUse, bank_use
from .fragments import FRAGMENTS, Fragment, fragment
from .layout import ComposedLayout, Layout, Swizzle, make_layout
from .notation import parse
from .tile import ORDERS, Tile, tile_of
from .tiles import shared_tile

__all__ = [
    "FRAGMENTS",
    "ORDERS",
    "BankUse",
    "ComposedLayout",
    "Fragment",
    "Layout",
    "Swizzle",
    "Tile",
    "bank_use",
    "coalesce",
    "complement",
    "composition",
    "fragment",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_layout",
    "parse",
    "right_inverse",
    "shared_tile",
    "tile_of",
    "zipped_divide",
]
