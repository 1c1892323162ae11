# mypy: disable-error-code="no-untyped-def"
"""The gated activations: a program per row and block of columns."""

from __future__ import annotations

import torch
import triton.language as tl

from sglab.kernels.gated_activation.contract import GatedArguments
from sglab.kernels.gated_activation.formulas import KINDS
from sglab.planning.arith import ceil_div
from sglab.triton import LaunchRecord, triton_kernel

_BLOCK = 1024


@triton_kernel
def gated_activation_kernel(x_ptr, y_ptr, size, stride_x, KIND: tl.constexpr, BLOCK: tl.constexpr):
    """A row of y from a row of x, twice as long: see formulas.py for the three kinds."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    real = column < size
    first = x_ptr + row * stride_x + (column * 2 if KIND == 2 else column)
    gate = tl.load(first, mask=real, other=0.0).to(tl.float32)
    up = tl.load(first + (1 if KIND == 2 else size), mask=real, other=0.0).to(tl.float32)
    if KIND == 0:
        y = gate / (1 + tl.exp(-gate)) * up
    elif KIND == 1:
        inner = 0.7978845608028654 * (gate + 0.044715 * gate * gate * gate)
        y = gate / (1 + tl.exp(-2 * inner)) * up
    else:
        gate = tl.minimum(gate, 7.0)
        up = tl.maximum(tl.minimum(up, 7.0), -7.0)
        y = gate / (1 + tl.exp(-1.702 * gate)) * (up + 1)
    tl.store(y_ptr + row * size + column, y.to(y_ptr.dtype.element_ty), mask=real)


def launch(x: torch.Tensor, out: torch.Tensor, kind: str) -> tuple[LaunchRecord, ...]:
    """x (rows, 2 n) -> out (rows, n), dense."""
    rows, size = out.shape
    if not rows:
        return ()
    grid = (rows, ceil_div(size, _BLOCK))
    return (gated_activation_kernel[grid](x, out, size, x.stride(0), KIND=KINDS.index(kind), BLOCK=_BLOCK),)


def run(a: GatedArguments) -> tuple[LaunchRecord, ...]:
    return launch(a.x, a.out, a.kind)
