"""FlashAttention's functions in Triton: one kernel for prefill and decode, and a second that merges splits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from sglab.kernels import devices
from sglab.kernels.contract import FLOATS
from sglab.kernels.flash_attn.contract import UNBOUNDED, FlashAttnArguments
from sglab.kernels.flash_attn.kernel import flash_attn_combine_kernel, flash_attn_kernel
from sglab.kernels.scoring_triton import dim_blocks
from sglab.planning.fa3_num_splits import num_splits_heuristic
from sglab.triton import LaunchRecord

_COMPUTE = {torch.float32: tl.float32, torch.float16: tl.float16}


@dataclass(frozen=True)
class Tile:
    """Rows (queries × heads of a group) × keys of one step, warps, stages of the load pipeline."""

    rows: int
    keys: int
    num_warps: int
    num_stages: int


def tile_for(rows: int, qk_dim: int, v_dim: int, element_size: int) -> Tile:
    """Tile for `rows` rows per KV head and request; element_size as the dot products have it, bytes."""
    wide = max(qk_dim, v_dim)
    if element_size == 4:
        return Tile(16, 32 if wide <= 256 else 16, 4, 1)
    if rows <= 16:
        return Tile(16, 64, 4 if wide <= 256 else 8, 3 if wide <= 256 else 2)
    if wide > 256:
        return Tile(32, 32, 8, 2)
    if rows <= 64:
        return Tile(64, 64, 4, 2)
    return Tile(64 if wide > 192 else 128, 64, 8, 3 if wide <= 128 else 2)


def run(a: FlashAttnArguments) -> tuple[LaunchRecord, ...]:
    (tokens, _, qk_dim), v_dim = a.q.shape, a.v.shape[-1]
    batch, kv_heads = a.batch, a.k.shape[2]
    rows = a.max_seqlen_q * a.group
    if not batch * tokens * rows:
        return ()
    compute = a.q.dtype if a.q.dtype in FLOATS else torch.bfloat16
    tile = tile_for(rows, qk_dim, v_dim, compute.itemsize)
    blocks = triton.cdiv(rows, tile.rows)
    splits = a.num_splits or _splits(a, tile, blocks)
    parts, lse = (a.out, a.lse) if splits == 1 else _parts(a, splits)
    k, v, masking, scoring = a.k, a.v, a.masking, a.scoring
    block, rest = dim_blocks(qk_dim)
    qv = a.q if a.qv is None else a.qv
    descales = [None if one is None else one.expand(batch, kv_heads).contiguous() for one in _descales(a)]
    first = flash_attn_kernel[(blocks * splits, kv_heads, batch)](
        *(a.q, a.qv, k, v, parts, lse, a.starts, a.seqlens_q, a.lens if a.ends is None else a.ends.last, a.first),
        *(None if a.ends is None else a.ends.indptr, a.page_table),
        *(scoring.sinks, *descales, masking.prefix_lens, masking.token_pos_in_items),
        *(scoring.sm_scale, scoring.logit_cap, masking.left, masking.right, masking.chunk),
        *(*a.q.stride()[:2], *qv.stride()[:2], *k.stride()[:3], *v.stride()[:3]),
        *(0 if splits == 1 else parts.stride(0), *parts.stride()[-3:-1], 0 if splits == 1 else lse.stride(0)),
        *(*lse.stride()[-2:], 0 if a.page_table is None else a.page_table.stride(0)),
        *(0 if masking.token_pos_in_items is None else masking.token_pos_in_items.stride(0), kv_heads, 1),
        *(a.page_size, splits, a.max_seqlen_q, a.new_keys),
        GROUP=a.group,
        QK_DIM=qk_dim,
        QK_BLOCK=block,
        QK_REST=rest,
        V_DIM=v_dim,
        V_BLOCK=max(16, triton.next_power_of_2(v_dim)),
        BLOCK_M=tile.rows,
        BLOCK_N=tile.keys,
        HAS_CAP=scoring.logit_cap > 0,
        CHUNKED=masking.chunk < UNBOUNDED,
        BASE2=a.base2 and splits == 1,
        COMPUTE=_COMPUTE.get(compute, tl.bfloat16),
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
    return (first,) if splits == 1 else (first, _combine(a, parts, lse, splits))


def _descales(a: FlashAttnArguments) -> tuple[torch.Tensor | None, ...]:
    return a.q_descale, a.k_descale, a.v_descale


def _splits(a: FlashAttnArguments, tile: Tile, blocks: int) -> int:
    """By FlashAttention-3's heuristic, from what the host knows: the room for keys, not their number."""
    total = blocks * a.k.shape[2] * a.batch
    keys = min(a.capacity, a.masking.left + a.max_seqlen_q)
    size = keys * (a.k.shape[-1] + a.v.shape[-1]) * a.k.element_size()
    local = a.masking.right < UNBOUNDED
    sms = devices.sm_count(a.device)
    return num_splits_heuristic(total, sms, triton.cdiv(keys, tile.keys), blocks, size, local, max_splits=32)


def _parts(a: FlashAttnArguments, splits: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for each split's output and LSE; rows past a request's queries keep what says 'no keys'."""
    parts = torch.zeros(splits, *a.out.shape, dtype=torch.float32, device=a.device)
    return parts, torch.full((splits, *a.lse.shape), -torch.inf, device=a.device)


def _combine(a: FlashAttnArguments, parts: torch.Tensor, lse: torch.Tensor, splits: int) -> LaunchRecord:
    tokens, heads, v_dim = a.out.shape
    return flash_attn_combine_kernel[(tokens, heads)](
        *(parts, lse, a.out, a.lse, a.scoring.sinks),
        *(*parts.stride()[:3], *lse.stride()[:2], *a.out.stride()[:2], *a.lse.stride(), splits),
        V_DIM=v_dim,
        V_BLOCK=triton.next_power_of_2(v_dim),
        SINK_IN_LSE=True,
        EMPTY_LSE=-float("inf"),
        BASE2=a.base2,
        num_warps=1 if v_dim <= 128 else 4,
    )
