# mypy: disable-error-code="no-untyped-def"
"""The RMSNorms: a program per row, which it reads and writes once."""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.layernorm.contract import NormArguments
from sglab.planning.arith import next_power_of_two
from sglab.triton import LaunchRecord, triton_kernel


@triton_kernel
def rmsnorm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    out_ptr,
    stride_x,
    stride_r,
    stride_out,
    size,
    eps,
    offset,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    real = column < size
    wide = tl.load(x_ptr + row * stride_x + column, mask=real, other=0.0).to(tl.float32)
    if residual_ptr is not None:
        residual = tl.load(residual_ptr + row * stride_r + column, mask=real, other=0.0).to(tl.float32)
        stored = (wide + residual).to(residual_ptr.dtype.element_ty)
        tl.store(residual_ptr + row * stride_r + column, stored, mask=real)
        wide = stored.to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(wide * wide, 0) / size + eps)
    weight = tl.load(weight_ptr + column, mask=real, other=0.0).to(tl.float32) + offset
    tl.store(out_ptr + row * stride_out + column, (wide * scale * weight).to(out_ptr.dtype.element_ty), mask=real)


def run(a: NormArguments) -> tuple[LaunchRecord, ...]:
    rows, size = a.x.shape
    if not rows:
        return ()
    block = next_power_of_two(size)
    strides = (a.x.stride(0), 0 if a.residual is None else a.residual.stride(0), a.out.stride(0))
    record = rmsnorm_kernel[(rows,)](
        *(a.x, a.residual, a.weight, a.out, *strides, size, a.eps, a.offset),
        BLOCK=block,
        num_warps=min(max(block // 512, 1), 16),
    )
    return (record,)
