"""gptq_marlin_gemm, widened: in float64, or in float32."""

from __future__ import annotations

import torch

from sglab.kernels.formats.marlin import marlin_permute_scales, marlin_unpack, marlin_unpack_zero_points
from sglab.kernels.marlin.contract import MarlinArguments


def run(a: MarlinArguments) -> tuple[()]:
    return _product(a, torch.float64)


def run_float32(a: MarlinArguments) -> tuple[()]:
    return _product(a, torch.float32)


def _product(a: MarlinArguments, dtype: torch.dtype) -> tuple[()]:
    values = marlin_unpack(a.words, a.bits)
    if a.zeros is None:
        values = values - 2 ** (a.bits - 1)
    else:
        values = values - marlin_unpack_zero_points(a.zeros, a.bits).repeat_interleave(a.group, 0)
    scales = marlin_permute_scales(a.scales, inverse=True).to(dtype).repeat_interleave(a.group, 0)
    a.out.copy_(a.a.to(dtype) @ (values.to(dtype) * scales))
    return ()
