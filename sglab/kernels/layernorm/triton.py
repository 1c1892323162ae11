# mypy: disable-error-code="no-untyped-def"
"""fused_add_rmsnorm: a program per row, which it reads and writes once."""

from __future__ import annotations

import triton
import triton.language as tl

from sglab.kernels.layernorm.contract import NormArguments
from sglab.triton import LaunchRecord, triton_kernel


@triton_kernel
def fused_add_rmsnorm_kernel(x_ptr, residual_ptr, weight_ptr, stride_x, stride_r, size, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    real = column < size
    x = tl.load(x_ptr + row * stride_x + column, mask=real, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + row * stride_r + column, mask=real, other=0.0).to(tl.float32)
    stored = (x + residual).to(residual_ptr.dtype.element_ty)
    tl.store(residual_ptr + row * stride_r + column, stored, mask=real)
    wide = stored.to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(wide * wide, 0) / size + eps)
    weight = tl.load(weight_ptr + column, mask=real, other=0.0).to(tl.float32)
    tl.store(x_ptr + row * stride_x + column, (wide * scale * weight).to(x_ptr.dtype.element_ty), mask=real)


def run(a: NormArguments) -> tuple[LaunchRecord, ...]:
    rows, size = a.x.shape
    if not rows:
        return ()
    block = triton.next_power_of_2(size)
    launch = fused_add_rmsnorm_kernel[(rows,)]
    warps = min(max(block // 512, 1), 16)
    arguments = (a.x, a.residual, a.weight, a.x.stride(0), a.residual.stride(0), size, a.eps)
    return (launch(*arguments, BLOCK=block, num_warps=warps),)
