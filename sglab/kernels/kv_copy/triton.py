# mypy: disable-error-code="no-untyped-def"
"""Tiled copy: a program owns some bytes of every row of a buffer; it loads them all before it stores any."""

from __future__ import annotations

import triton
import triton.language as tl

from sglab.kernels.kv_copy.contract import CopyArguments
from sglab.triton import LaunchRecord, triton_kernel

_TILE = 128
"""Bytes of a row."""


@triton_kernel
def copy_rows_kernel(buffer_ptr, tgt_ptr, src_ptr, rows, row_bytes, ROWS: tl.constexpr, TILE: tl.constexpr):
    row = tl.arange(0, ROWS)
    byte = tl.program_id(0) * TILE + tl.arange(0, TILE)
    source = tl.load(src_ptr + row, mask=row < rows, other=0).to(tl.int64)
    target = tl.load(tgt_ptr + row, mask=row < rows, other=0).to(tl.int64)
    mask = (row < rows)[:, None] & (byte < row_bytes)[None, :]
    held = tl.load(buffer_ptr + source[:, None] * row_bytes + byte[None, :], mask=mask)
    # A row may be one thread's target and another's source.
    tl.debug_barrier()
    tl.store(buffer_ptr + target[:, None] * row_bytes + byte[None, :], held, mask=mask)


def run(a: CopyArguments) -> tuple[LaunchRecord, ...]:
    rows = len(a.tgt)
    if not rows:
        return ()
    return tuple(
        copy_rows_kernel[(triton.cdiv(buffer.shape[1], _TILE),)](
            *(buffer, a.tgt, a.src, rows, buffer.shape[1]),
            ROWS=triton.next_power_of_2(rows),
            TILE=_TILE,
            num_warps=8,
        )
        for buffer in a.buffers
    )
