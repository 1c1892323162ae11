"""KV splits per request of SGLang's Triton decode attention.

Source: SGLang 0.5.9 `layers/attention/triton_backend.py` (`get_num_kv_splits_triton`,
`TritonAttnBackend.get_num_kv_splits`) and `layers/attention/triton_ops/decode_attention.py` (split ranges, grid).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sglab.planning import check
from sglab.planning.arith import ceil_div
from sglab.planning.check import Int64Array

Int32Array = NDArray[np.int32]
MAX_KV_SPLITS = 8
"""Server default `--triton-attention-num-kv-splits`."""
MIN_BLOCK_KV = 32
"""A split's length is rounded up to this many tokens."""
BLOCK_H = 16
"""Query heads per CTA of the grouped (GQA, MQA, MLA) kernel, at most."""
DETERMINISTIC_TILE = 256
_ZERO = "the kernel would divide by zero; padded rows of a CUDA graph have length 1"


def head_blocks(num_head: int, num_kv_head: int) -> int:
    """CTAs over heads: one per head for MHA, one per min(16, group) heads otherwise."""
    num_head, num_kv_head = check_heads(num_head, num_kv_head)
    group = num_head // num_kv_head
    return num_head if group == 1 else ceil_div(num_head, min(BLOCK_H, group))


def get_num_kv_splits(
    seq_lens: ArrayLike,
    *,
    num_head: int,
    num_kv_head: int,
    device_core_count: int,
    max_kv_splits: int = MAX_KV_SPLITS,
    num_group: int = 1,
) -> Int32Array:
    """The dynamic rule, int32 (batch · num_group,).

    Two chunk lengths compete and each request takes the larger number of splits: one evens out lengths within the
    batch, the other fills the device, asking for log2(longest / 64) times its SMs. `num_group` is the number of
    draft tokens per request under speculation; each gets its request's value.
    """
    tokens = check.lengths("seq_lens", seq_lens, minimum=1, remedy=_ZERO)
    cores = check.integer("device_core_count", device_core_count, minimum=1)
    max_splits = check.integer("max_kv_splits", max_kv_splits, minimum=1)
    num_group = check.integer("num_group", num_group, minimum=1)
    longest, shortest = int(tokens.max()), int(tokens.min())
    if longest * 8 < shortest * 10:  # lengths within 25 %: treat them as equal
        shortest = longest
    chunk_1 = ceil_div(longest, min(ceil_div(longest, shortest), max_splits))

    growth = np.maximum(np.log2(np.float32(longest) / np.float32(64)), np.float32(1))
    ext_cores = int(np.float32(cores) * growth)
    token_grid = tokens.size * num_group * head_blocks(num_head, num_kv_head)
    chunk_2 = ceil_div(longest, min(ceil_div(ext_cores, token_grid), max_splits))

    splits = np.maximum(ceil_div(tokens, chunk_1), ceil_div(tokens, chunk_2))
    return np.repeat(splits, num_group).astype(np.int32)


def static_num_kv_splits(seq_lens: ArrayLike, *, max_kv_splits: int = MAX_KV_SPLITS) -> Int32Array:
    """`SGLANG_TRITON_DECODE_ATTN_STATIC_KV_SPLITS`, or a device whose cores cannot be counted: the maximum for all."""
    tokens = check.lengths("seq_lens", seq_lens)
    return np.full(tokens.size, check.integer("max_kv_splits", max_kv_splits, minimum=1), np.int32)


def deterministic_num_kv_splits(seq_lens: ArrayLike, *, split_tile_size: int = DETERMINISTIC_TILE) -> Int32Array:
    """Deterministic inference: ceil(len / tile), so a request splits the same way in every batch."""
    tokens = check.lengths("seq_lens", seq_lens)
    return ceil_div(tokens, check.integer("split_tile_size", split_tile_size, minimum=1)).astype(np.int32)


def kv_len_per_split(seq_lens: ArrayLike, num_kv_splits: ArrayLike) -> Int64Array:
    """Tokens per split as both decode kernels compute it: ceil(len / splits), rounded up to 32; int64 (batch,)."""
    tokens = check.lengths("seq_lens", seq_lens, minimum=1, remedy=_ZERO)
    splits = check.lengths("num_kv_splits", num_kv_splits, minimum=1, remedy="every request needs a split")
    check.same_length("num_kv_splits", splits, "seq_lens", tokens.size)
    return ceil_div(ceil_div(tokens, splits), MIN_BLOCK_KV) * MIN_BLOCK_KV


def check_heads(num_head: int, num_kv_head: int) -> tuple[int, int]:
    num_head = check.integer("num_heads", num_head, minimum=1)
    num_kv_head = check.integer("num_kv_heads", num_kv_head, minimum=1)
    if num_head % num_kv_head:
        raise check.fail("num_heads", f"a multiple of num_kv_heads={num_kv_head}", num_head, "change either")
    return num_head, num_kv_head
