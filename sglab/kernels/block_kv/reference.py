"""Block-scaled KV rows in plain torch: quotients in float32, as formats define them; products in float64."""

from __future__ import annotations

import math

import torch

from sglab.kernels.block_kv.contract import BlockRows
from sglab.kernels.block_kv.layout import BlockFormat, scale_index
from sglab.kernels.formats.fp8 import to_e4m3
from sglab.kernels.formats.microscaling import E8M0_BIAS, E8M0_NAN, e2m1_codes, pack_e2m1, unpack_e2m1

SMALLEST = {4: 1e-10, 8: 1e-30}
"""Least amax / 6 of a block of e2m1, least amax of one of e4m3, so that zeros have a scale."""
E4M3_NAN = 0x7F
MIDDLES = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


def quantize(a: BlockRows) -> tuple[()]:
    blocks = a.rows.float().unflatten(-1, (-1, a.format.block))
    scales, codes = quantized(blocks, a.format, a.factor)
    slots = torch.arange(len(a.rows), device=a.device) if a.slots is None else a.slots.long()
    a.codes[slots] = codes
    a.scales.view(-1)[scale_index(a.layout, slots, a.rows.shape[1], scales.shape[-1], a.page_size)] = scales
    return ()


def quantized(blocks: torch.Tensor, made: BlockFormat, factor: float) -> tuple[torch.Tensor, torch.Tensor]:
    """float32 [..., blocks, block] -> scales uint8 [..., blocks] and codes uint8 [..., bytes].

    A block with a NaN or an infinity gets the scale NaN: it is read back as NaN.
    """
    amax = blocks.abs().amax(-1)
    if made.power_of_two:
        least = SMALLEST[made.bits]
        needed = (amax / 6.0).clamp(min=least) if made.bits == 4 else amax.clamp(min=least) / 448.0
        fraction, exponent = torch.frexp(needed)
        exponent = exponent - (fraction == 0.5).to(exponent.dtype)  # the power of two that is not below
        scales = (exponent + E8M0_BIAS).clamp(0, 254).to(torch.uint8)
        shrunk = torch.ldexp(blocks, -exponent[..., None])
    else:
        stored = to_e4m3(amax / 6.0 / factor)
        divisor = stored.float() * factor
        scales = stored.view(torch.uint8)
        shrunk = torch.where(divisor[..., None] > 0, blocks / divisor[..., None], 0.0)
    spoilt = ~blocks.isfinite().all(-1)
    scales = torch.where(spoilt, E8M0_NAN if made.power_of_two else E4M3_NAN, scales)
    shrunk = torch.where(spoilt[..., None], 0.0, shrunk)
    if made.bits == 8:
        return scales, to_e4m3(shrunk).view(torch.uint8).flatten(-2)
    codes = away_from_zero(shrunk) if made.power_of_two else e2m1_codes(shrunk)
    return scales, pack_e2m1(codes.flatten(-2))


def away_from_zero(x: torch.Tensor) -> torch.Tensor:
    """The code of the nearest e2m1 value, ties to the larger magnitude: SGLang's rule in fp4_mx_block16."""
    code = torch.zeros_like(x, dtype=torch.uint8)
    for middle in MIDDLES:
        code += x.abs() >= middle
    return code | ((x < 0).to(torch.uint8) << 3)


def dequantize(a: BlockRows) -> tuple[()]:
    slots = torch.arange(len(a.codes), device=a.device) if a.slots is None else a.slots.long()
    if a.count is not None:
        real = torch.arange(len(slots), device=a.device) < a.count
        slots = torch.where(real, slots, 0)
    codes, made = a.codes[slots], a.format
    scales = a.scales.view(-1)[
        scale_index(a.layout, slots, a.rows.shape[1], made.scales(a.rows.shape[-1]), a.page_size)
    ]
    values = unpack_e2m1(codes) if made.bits == 4 else codes.view(torch.float8_e4m3fn)
    rows = values.double().unflatten(-1, (-1, made.block)) * (_widened(scales, made) * a.factor)[..., None]
    rows = rows.flatten(-2)
    a.rows.copy_(rows if a.count is None else torch.where(real[:, None, None], rows, 0.0))
    return ()


def _widened(scales: torch.Tensor, made: BlockFormat) -> torch.Tensor:
    if not made.power_of_two:
        return scales.view(torch.float8_e4m3fn).double()
    powers = torch.exp2(scales.double() - E8M0_BIAS)
    return torch.where(scales == E8M0_NAN, math.nan, powers)
