# mypy: disable-error-code="no-untyped-def"
"""fused_experts as two grouped GEMMs over choices sorted by expert, and a sum over each token's choices.

After SGLang's fused_moe_triton_kernels.py; quantised experts are in quantized_triton.py.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglab.kernels.fused_moe import quantized_triton
from sglab.kernels.fused_moe.contract import MoeArguments
from sglab.kernels.gated_activation import triton as gated_activation
from sglab.kernels.moe_align import moe_align_block_size
from sglab.triton import LaunchRecord, triton_kernel

_TILES = (64, 64, 32, 8)
_FEW_TILES = (16, 32, 64, 1)
"""Rows, columns, depth of a tile, and rows of tiles that share their columns: SGLang's defaults, for many tokens and
for no more tokens than experts."""


@triton_kernel
def fused_moe_kernel(
    a_ptr,
    b_ptr,
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
    stride_be,
    stride_bn,
    stride_bias,
    stride_cm,
    TOPK: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    """c[choice] = a[choice // TOPK] @ b[expert]ᵀ (+ bias), times the choice's weight if there are weights."""
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    end = tl.load(num_post_pad_ptr)
    tiles_m = tl.cdiv(end, BLOCK_M)
    group = pid // (GROUP_M * tiles_n)
    rows_of_tiles = tl.minimum(tiles_m - group * GROUP_M, GROUP_M)
    if rows_of_tiles <= 0:
        return
    inside = pid % (GROUP_M * tiles_n)
    tile_m = group * GROUP_M + inside % rows_of_tiles
    tile_n = inside // rows_of_tiles
    if tile_n >= tiles_n:
        return
    choice = tl.load(sorted_ids_ptr + tile_m * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    real = choice < choices
    column = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c = c_ptr + choice[:, None] * stride_cm + column[None, :]
    stored = real[:, None] & (column < N)[None, :]
    expert = tl.load(expert_ids_ptr + tile_m).to(tl.int64)
    if expert < 0:
        tl.store(c, tl.zeros([BLOCK_M, BLOCK_N], c_ptr.dtype.element_ty), mask=stored)
        return
    depth = tl.arange(0, BLOCK_K)
    a = a_ptr + (choice // TOPK)[:, None] * stride_am + depth[None, :]
    b = b_ptr + expert * stride_be + column[None, :].to(tl.int64) * stride_bn + depth[:, None]
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        rest = depth < K - start
        x = tl.load(a + start, mask=real[:, None] & rest[None, :], other=0.0)
        w = tl.load(b + start, mask=rest[:, None] & (column < N)[None, :], other=0.0)
        total = tl.dot(x, w, total, input_precision="ieee")
    if bias_ptr is not None:
        total += tl.load(bias_ptr + expert * stride_bias + column, mask=column < N, other=0.0).to(tl.float32)[None, :]
    if weights_ptr is not None:
        total *= tl.load(weights_ptr + choice, mask=real, other=0.0).to(tl.float32)[:, None]
    tl.store(c, total.to(c_ptr.dtype.element_ty), mask=stored)


def run(a: MoeArguments) -> tuple[LaunchRecord, ...]:
    if a.quantization is not None:
        return quantized_triton.run(a)
    tokens, topk = a.topk_ids.shape
    experts, width, hidden = a.w1.shape
    tiles = _FEW_TILES if tokens <= experts else _TILES
    order = moe_align_block_size(a.topk_ids, tiles[0], experts, check_values=False)
    gate_up = a.hidden.new_empty(tokens * topk, width)
    activated = a.hidden.new_empty(tokens * topk, width // 2)
    rows = a.hidden.new_empty(tokens * topk, hidden)
    records = [_product(a.hidden, a.w1, a.w1_bias, gate_up, None, order, topk, tiles)]
    records += gated_activation.launch(gate_up, activated, a.activation)
    records.append(_product(activated, a.w2, a.w2_bias, rows, a.topk_weights.contiguous(), order, 1, tiles))
    torch.sum(rows.view(tokens, topk, hidden), 1, out=a.out)
    return tuple(records)


def _product(
    x: torch.Tensor,
    w: torch.Tensor,
    bias: torch.Tensor | None,
    out: torch.Tensor,
    weights: torch.Tensor | None,
    order: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    topk: int,
    tiles: tuple[int, int, int, int],
) -> LaunchRecord:
    sorted_ids, expert_ids, num_post_pad = order
    _, columns, depth = w.shape
    block_m, block_n, block_k, group_m = tiles
    # The grid is for the worst case, rounded up to whole groups of tile rows; programs beyond the end return at once.
    tile_rows = triton.cdiv(len(expert_ids), group_m) * group_m
    return fused_moe_kernel[(tile_rows * triton.cdiv(columns, block_n),)](
        x,
        w,
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
        w.stride(0),
        w.stride(1),
        0 if bias is None else bias.stride(0),
        out.stride(0),
        TOPK=topk,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=block_k,
        GROUP_M=group_m,
        num_warps=4,
    )
