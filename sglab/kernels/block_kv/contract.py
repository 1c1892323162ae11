"""What writing and reading block-scaled KV rows asks of its arguments."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.block_kv.layout import ATOM, FORMATS, SCALE_LAYOUTS, BlockFormat, ScaleLayout, scale_shape
from sglab.kernels.contract import FLOATS, INDEX, Contract, reads_values

BYTES = (torch.uint8, torch.float8_e4m3fn)


@dataclass(frozen=True)
class BlockRows:
    """Checked: `rows` [tokens, heads, dim] are written to, or read from, the slots of a cache.

    Attributes:
        codes: uint8 [slots, heads, bytes]. scales: uint8, as `layout` lies; contiguous.
        slots: int [tokens]; None: all, in order.
        count: int [] on the device, tokens that are real; rows after them are read as zeros. None: all.
    """

    rows: torch.Tensor
    codes: torch.Tensor
    scales: torch.Tensor
    slots: torch.Tensor | None
    format: BlockFormat
    factor: float
    layout: ScaleLayout
    page_size: int
    count: torch.Tensor | None = None

    @property
    def device(self) -> torch.device:
        return self.rows.device


def check_rows(
    operator: str,
    rows: torch.Tensor,
    cache: tuple[torch.Tensor, torch.Tensor],
    slots: torch.Tensor | None,
    kv_format: str,
    factor: float,
    layout: ScaleLayout,
    page_size: int,
    count: torch.Tensor | None,
    check_values: bool | None,
) -> BlockRows:
    contract = Contract(operator)
    codes, scales = cache
    known = kv_format in FORMATS
    contract.require(known, "kv_format", f"one of {', '.join(FORMATS)}", repr(kv_format), "Use one of them.")
    made = FORMATS[kv_format]
    contract.tensor("rows", rows, "tokens heads dim", FLOATS)
    heads, dim = rows.shape[1:]
    unit = made.block * (4 if layout == "swizzled" else 1)
    remedy = f"{kv_format} has a scale for each {made.block} values."
    contract.require(dim > 0 and dim % unit == 0, "rows", f"heads of a multiple of {unit} dims", dim, remedy)
    contract.tensor("codes", codes, f"slots heads {made.row_bytes(dim)}", BYTES)
    contract.require(codes.is_contiguous(), "codes", "contiguous", f"strides {codes.stride()}", "Allocate it whole.")
    contract.require(layout in SCALE_LAYOUTS, "layout", f"one of {', '.join(SCALE_LAYOUTS)}", repr(layout), "Use one.")
    whole = {"slots": 1, "pages": 1, "swizzled": 4, "interleaved": ATOM}[layout]
    expected = f"a multiple of {whole} that divides the {len(codes)} slots"
    fits = page_size > 0 and page_size % whole == 0 and (layout == "slots" or len(codes) % page_size == 0)
    contract.require(fits, "page_size", expected, page_size, "Use the pool's.")
    shape = scale_shape(layout, len(codes), heads, made.scales(dim), page_size)
    right = tuple(scales.shape) == shape and scales.element_size() == 1 and scales.is_contiguous()
    contract.require(
        right, "scales", f"{shape}, a byte each, contiguous", tuple(scales.shape), "Allocate them so, zeroed."
    )
    contract.require(scales.device == rows.device, "scales", f"on {rows.device}", scales.device, "Move them.")
    usable = 0 < factor < float("inf") and (made.has_factor or factor == 1.0)
    contract.require(usable, "factor", "positive and finite; 1 but for nvfp4", factor, "Use the layer's scale.")
    if slots is not None:
        contract.tensor("slots", slots, "tokens", INDEX)
        if reads_values(check_values, rows.device):
            read = slots if count is None else slots[: int(count)]
            inside = (read >= 0) & (read < len(codes))
            contract.elements("slots", inside, f"from 0 to {len(codes) - 1}", read, "Take slots from the allocator.")
    elif not contract.known:
        contract.require(len(rows) == len(codes), "rows", f"{len(codes)}, one per slot", len(rows), "Pass slots.")
    return BlockRows(
        rows, codes.view(torch.uint8), scales.view(torch.uint8), slots, made, float(factor), layout, page_size, count
    )
