"""K records in plain torch; float64 where something is rounded once."""

from __future__ import annotations

import torch

from sglab.kernels.k_records.contract import DequantizeArguments, QuantizeArguments
from sglab.kernels.k_records.layout import NOPE, TILE, TILES, taken_apart


def quantize(a: QuantizeArguments) -> tuple[()]:
    at = slice(None) if a.slots is None else a.slots.long()
    nope, rope = a.k[:, :NOPE].float().unflatten(-1, (TILES, TILE)), a.k[:, NOPE:]
    top = nope.abs().amax(-1)
    scales = torch.where(top == 0, 1.0, top / torch.full_like(top, 448))  # by a number CUDA would multiply by 1/448
    views = taken_apart(a.records)
    stored = (nope / scales[..., None]).clamp(-448, 448).to(torch.float8_e4m3fn)
    views.nope.view(torch.uint8)[at] = stored.flatten(1).view(torch.uint8)
    views.scales[at] = scales
    views.rope[at] = rope.to(torch.bfloat16)
    return ()


def dequantize(a: DequantizeArguments) -> tuple[()]:
    views = taken_apart(a.records if a.slots is None else a.records[a.slots.long()])
    nope = views.nope.double().unflatten(-1, (TILES, TILE)) * views.scales.double()[..., None]
    a.k[:, :NOPE] = nope.flatten(1)
    a.k[:, NOPE:] = views.rope
    return ()
