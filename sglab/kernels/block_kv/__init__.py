"""KV caches of 4 and 8 bits with a scale for each block of a row: nvfp4, fp4_mx_block16, mxfp8; written and read."""

from __future__ import annotations

import torch

from sglab.kernels.block_kv.contract import BlockRows, check_rows
from sglab.kernels.block_kv.layout import FORMATS, SCALE_LAYOUTS, BlockFormat, ScaleLayout, scale_index, scale_shape
from sglab.kernels.fp8 import e4m3_triton_refuses
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator

__all__ = [
    "FORMATS",
    "SCALE_LAYOUTS",
    "BlockFormat",
    "ScaleLayout",
    "dequantize_kv_rows",
    "quantize_kv_rows",
    "scale_index",
    "scale_shape",
]


def _operator(name: str, function: str) -> Operator:
    return Operator(
        name,
        Implementation("triton", f"sglab.kernels.block_kv.triton:{function}", GPU, e4m3_triton_refuses),
        Implementation("reference", f"sglab.kernels.block_kv.reference:{function}", EVERYWHERE),
    )


quantize_operator = _operator("quantize_kv_rows", "quantize")
dequantize_operator = _operator("dequantize_kv_rows", "dequantize")


def quantize_kv_rows(
    rows: torch.Tensor,
    codes: torch.Tensor,
    scales: torch.Tensor,
    loc: torch.Tensor,
    kv_format: str,
    *,
    factor: float = 1.0,
    layout: ScaleLayout = "slots",
    page_size: int = 1,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """Write rows into the slots `loc` of a block-scaled cache, as SGLang 0.5.23 quantises them.

    nvfp4: a block of 16 has the e4m3 scale amax / 6 / factor; codes are the nearest e2m1, ties to even.
    fp4_mx_block16: the scale is the power of two not below amax / 6; ties go away from zero.
    mxfp8: a block of 32 has the power of two not below amax / 448; codes are e4m3.
    A block with a NaN or an infinity gets the scale NaN, and is read back as NaN.

    Args:
        rows: (tokens, heads, dim) float32, float16 or bfloat16; dim a multiple of the block.
        codes: (slots, heads, dim / 2), mxfp8's (slots, heads, dim), uint8 or float8_e4m3fn. scales: a byte each.
        loc: (tokens,) int32 or int64.
        factor: nvfp4's float32 factor of the layer.
        layout: where scales lie: "slots", "pages", "interleaved" or "swizzled" (`scale_shape`).

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    cache = codes, scales
    arguments = check_rows(
        "quantize_kv_rows", rows, cache, loc, kv_format, factor, layout, page_size, None, check_values
    )
    quantize_operator(arguments, implementation)


def dequantize_kv_rows(
    codes: torch.Tensor,
    scales: torch.Tensor,
    slots: torch.Tensor | None,
    kv_format: str,
    dim: int,
    *,
    dtype: torch.dtype = torch.bfloat16,
    factor: float = 1.0,
    layout: ScaleLayout = "slots",
    page_size: int = 1,
    count: torch.Tensor | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """The rows of slots, (tokens, heads, dim) in `dtype`: code · scale · factor, rounded once.

    Args:
        codes, scales, factor, layout, page_size: as they were written.
        slots: (tokens,) int32 or int64; None: all.
        dim: of a row's head.
        count: int, one element on the rows' device: so many of `slots` are real; the rows after them are zeros.

    Raises:
        ContractError: an argument does not fit.
    """
    tokens = len(codes) if slots is None else len(slots)
    rows = torch.empty((tokens, codes.shape[1], dim), dtype=dtype, device=codes.device)
    cache = codes, scales
    arguments: BlockRows = check_rows(
        "dequantize_kv_rows", rows, cache, slots, kv_format, factor, layout, page_size, count, check_values
    )
    dequantize_operator(arguments, implementation)
    return rows
