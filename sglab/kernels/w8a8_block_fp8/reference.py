"""w8a8_block_fp8_matmul, widened: in float64, or in float32."""

from __future__ import annotations

import torch

from sglab.kernels.formats.fp8 import spread
from sglab.kernels.w8a8_block_fp8.contract import BlockFp8Arguments


def run(a: BlockFp8Arguments) -> tuple[()]:
    return _product(a, torch.float64)


def run_float32(a: BlockFp8Arguments) -> tuple[()]:
    return _product(a, torch.float32)


def _product(a: BlockFp8Arguments, dtype: torch.dtype) -> tuple[()]:
    x = a.a.to(dtype) * spread(a.a_scale.to(dtype), (1, a.block[1]), a.a.shape)
    w = a.b.to(dtype) * spread(a.b_scale.to(dtype), a.block, a.b.shape)
    a.out.copy_(x @ w.T)
    return ()
