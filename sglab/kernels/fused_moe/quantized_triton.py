# mypy: disable-error-code="no-untyped-def"
"""Grouped GEMMs of quantised experts: each step of the depth is one group, whose scales multiply its partial product.

After SGLang's fused_moe_triton_kernels.py (FP8 in blocks) and CUTLASS W4A8 kernel.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglab.kernels.formats.fp8 import E4M3, has_e4m3
from sglab.kernels.fused_moe.contract import MoeArguments
from sglab.kernels.gated_activation import triton as gated_activation
from sglab.kernels.moe_align import moe_align_block_size
from sglab.kernels.w8a8_block_fp8.contract import BlockFp8Arguments
from sglab.triton import LaunchRecord, triton_kernel

_KINDS = ("fp8_block", "w4a8", "mxfp4")
_BLOCK_N = 64


@triton_kernel
def quantized_moe_kernel(
    a_ptr,
    a_scale_ptr,
    b_ptr,
    b_scale_ptr,
    bias_ptr,
    c_ptr,
    weights_ptr,
    sorted_ids_ptr,
    expert_ids_ptr,
    num_post_pad_ptr,
    N,
    K,
    choices,
    stride_am,
    stride_asm,
    stride_be,
    stride_bn,
    stride_bse,
    stride_bsn,
    stride_bias,
    stride_cm,
    GROUP_N,
    GROUP_K: tl.constexpr,
    TOPK: tl.constexpr,
    KIND: tl.constexpr,
    WIDE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """c[choice] = (a · its scales)[choice // TOPK] @ (b · its scales)[expert]ᵀ (+ bias), times the choice's weight.

    Args:
        KIND: 0: e4m3 in blocks; 1: int4 with e4m3 activations; 2: MXFP4.
        WIDE: multiply in float32, whatever the formats.
    """
    tiles_n = tl.cdiv(N, BLOCK_N)
    tile_m = tl.program_id(0) // tiles_n
    tile_n = tl.program_id(0) % tiles_n
    if tile_m * BLOCK_M >= tl.load(num_post_pad_ptr):
        return
    choice = tl.load(sorted_ids_ptr + tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    real = choice < choices
    column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = column < N
    c = c_ptr + choice[:, None] * stride_cm + column[None, :]
    stored = real[:, None] & inside[None, :]
    expert = tl.load(expert_ids_ptr + tile_m).to(tl.int64)
    if expert < 0:
        tl.store(c, tl.zeros([BLOCK_M, BLOCK_N], c_ptr.dtype.element_ty), mask=stored)
        return
    row = choice // TOPK
    b_row = b_ptr + expert * stride_be + column.to(tl.int64) * stride_bn
    b_scale = b_scale_ptr + expert * stride_bse + (column // GROUP_N).to(tl.int64) * stride_bsn
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        depth = start + tl.arange(0, BLOCK_K)
        rest = depth < K
        x = tl.load(a_ptr + row[:, None] * stride_am + depth[None, :], mask=real[:, None] & rest[None, :], other=0.0)
        mask = rest[:, None] & inside[None, :]
        if KIND == 0:
            w = tl.load(b_row[None, :] + depth[:, None], mask=mask, other=0.0)
            scale = tl.load(b_scale + start // GROUP_K, mask=inside, other=0.0)
        else:
            byte = tl.load(b_row[None, :] + (depth // 2)[:, None], mask=mask, other=0).to(tl.int32)
            code = (byte >> ((depth % 2) * 4)[:, None]) & 15
            if KIND == 1:
                w = tl.where(mask, code - ((code & 8) << 1), 0).to(tl.float32).to(a_ptr.dtype.element_ty)
                scale = tl.load(b_scale + start // GROUP_K, mask=inside, other=0.0)
            else:
                size = code & 7  # 0, ½, then (2 + mantissa) · 2^(exponent - 2)
                value = tl.where(size < 2, size * 0.5, (2 + (size & 1)) * tl.exp2(((size >> 1) - 2).to(tl.float32)))
                w = tl.where(mask, tl.where(code > 7, -value, value), 0.0).to(a_ptr.dtype.element_ty)
                exponent = tl.load(b_scale + start // GROUP_K, mask=inside, other=127).to(tl.float32)
                scale = tl.exp2(exponent - 127)
        if WIDE:
            x = x.to(tl.float32)
            w = w.to(tl.float32)
        part = tl.dot(x, w, input_precision="ieee") * scale[None, :]
        if KIND == 0:
            part *= tl.load(a_scale_ptr + row * stride_asm + start // GROUP_K, mask=real, other=0.0)[:, None]
        total += part
    if KIND == 1:
        total *= tl.load(a_scale_ptr)
    if bias_ptr is not None:
        total += tl.load(bias_ptr + expert * stride_bias + column, mask=inside, other=0.0).to(tl.float32)[None, :]
    if weights_ptr is not None:
        total *= tl.load(weights_ptr + choice, mask=real, other=0.0).to(tl.float32)[:, None]
    tl.store(c, total.to(c_ptr.dtype.element_ty), mask=stored)


def refuses(a: MoeArguments) -> str | None:
    """Groups that would cross the end of a row, or that a step cannot be."""
    q = a.quantization
    if q is None:
        return None
    depths = (a.hidden.shape[1], a.w2.shape[2] * q.packing)
    if a.device.type == "cuda" and q.kind != "mxfp4" and not has_e4m3(a.device):
        return "needs a GPU that multiplies e4m3, sm_89 or newer"
    if any(depth % q.block[1] for depth in depths):
        return f"needs rows of whole groups of {q.block[1]}, got {depths}"
    return None if q.block[1] >= 16 and not q.block[1] & (q.block[1] - 1) else "needs groups of 16, 32, 64, …"


def run(a: MoeArguments) -> tuple[LaunchRecord, ...]:
    """fused_experts of quantised weights."""
    q = a.quantization
    assert q is not None
    tokens, topk = a.topk_ids.shape
    experts, width, hidden = a.w1.shape[0], a.w1.shape[1], a.w2.shape[1]
    # For tiles of 64 rows Triton 3.7 takes sm_100's tf32 here, whatever input_precision says.
    block_m = 16 if tokens <= experts or a.hidden.dtype == torch.float32 else 64
    order = moe_align_block_size(a.topk_ids, block_m, experts, check_values=False)
    x, x_scale = (a.hidden, None) if q.kind == "mxfp4" else q.rounded(a.hidden, 1)
    gate_up = a.hidden.new_empty(tokens * topk, width)
    kind = _KINDS.index(q.kind)
    first = _product(x, x_scale, a.w1, q.w1_scale, a.w1_bias, gate_up, None, order, topk, kind, q.block, block_m)
    activated = a.hidden.new_empty(tokens * topk, width // 2)
    middle = gated_activation.launch(gate_up, activated, a.activation)
    y, y_scale = (activated, None) if q.kind == "mxfp4" else q.rounded(activated, 2)
    rows = a.hidden.new_empty(tokens * topk, hidden)
    weights = a.topk_weights.contiguous()
    last = _product(y, y_scale, a.w2, q.w2_scale, a.w2_bias, rows, weights, order, 1, kind, q.block, block_m)
    torch.sum(rows.view(tokens, topk, hidden), 1, out=a.out)
    return (first, *middle, last)


def run_block_fp8(a: BlockFp8Arguments) -> tuple[LaunchRecord, ...]:
    """w8a8_block_fp8_matmul: one expert, to which every row goes."""
    rows = len(a.a)
    if not rows:
        return ()
    block_m = 16 if rows <= 32 else 64
    padded = triton.cdiv(rows, block_m) * block_m
    ids = torch.arange(padded, dtype=torch.int32, device=a.device).clamp(max=rows)
    order = (ids, torch.zeros(padded // block_m, dtype=torch.int32, device=a.device), ids.new_tensor([padded]))
    b, scale = a.b[None], a.b_scale.contiguous()[None]
    return (_product(a.a, a.a_scale, b, scale, None, a.out, None, order, 1, 0, a.block, block_m),)


def multiplies(x: torch.Tensor) -> bool:
    """Whether the machine that holds x multiplies its format; if not, products are of float32."""
    return x.is_cuda and (x.dtype != E4M3 or has_e4m3(x.device))


def _product(
    x: torch.Tensor,
    x_scale: torch.Tensor | None,
    w: torch.Tensor,
    w_scale: torch.Tensor,
    bias: torch.Tensor | None,
    out: torch.Tensor,
    weights: torch.Tensor | None,
    order: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    topk: int,
    kind: int,
    block: tuple[int, int],
    block_m: int,
) -> LaunchRecord:
    sorted_ids, expert_ids, num_post_pad = order
    columns, depth = w.shape[1], x.shape[1]
    x_scale = None if x_scale is None else x_scale.contiguous()
    return quantized_moe_kernel[(len(expert_ids) * triton.cdiv(columns, _BLOCK_N),)](
        x,
        x_scale,
        w,
        w_scale,
        bias,
        out,
        weights,
        sorted_ids,
        expert_ids,
        num_post_pad,
        columns,
        depth,
        len(out),
        x.stride(0),
        0 if x_scale is None or x_scale.dim() < 2 else x_scale.stride(0),
        w.stride(0),
        w.stride(1),
        w_scale.stride(0),
        w_scale.stride(1),
        0 if bias is None else bias.stride(0),
        out.stride(0),
        block[0],
        GROUP_K=block[1],
        TOPK=topk,
        KIND=kind,
        WIDE=not multiplies(x),
        BLOCK_M=block_m,
        BLOCK_N=_BLOCK_N,
        BLOCK_K=min(block[1], 128),
        num_warps=4,
    )
