# mypy: disable-error-code="no-untyped-def"
"""Pieces of Triton code that the attention kernels share."""

from __future__ import annotations

import triton
import triton.language as tl

from sglab.triton import triton_kernel

LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)


@triton_kernel
def base2_logits(qk, sm_scale, temperature, LOGIT_CAP: tl.constexpr, HAS_TEMPERATURE: tl.constexpr):
    """Logits times log2(e), so that weights are powers of two, which GPUs compute in one instruction."""
    if LOGIT_CAP > 0:
        # tanh(x) = 2 · sigmoid(2x) − 1
        qk = (2 * tl.sigmoid(2 * sm_scale / LOGIT_CAP * qk) - 1) * (LOGIT_CAP * LOG2_E)
    else:
        qk = qk * (sm_scale * LOG2_E)
    if HAS_TEMPERATURE:
        qk = qk * temperature
    return qk


@triton_kernel
def xai_temperature(position, TEMPERATURE_LEN: tl.constexpr):
    """Factor of a query's logits by its position."""
    factor = tl.log2(position.to(tl.float32)) / tl.log2(float(TEMPERATURE_LEN))
    return tl.where(position > TEMPERATURE_LEN, factor, 1.0)


@triton_kernel
def split_range(length, splits, split, MIN_BLOCK_KV: tl.constexpr):
    """(first, end) token of one split; empty where first ≥ end."""
    per_split = tl.cdiv(tl.cdiv(length, tl.maximum(splits, 1)), MIN_BLOCK_KV) * MIN_BLOCK_KV
    first = per_split * split
    return first, tl.minimum(first + per_split, length)


def dim_blocks(dim: int) -> tuple[int, int]:
    """A head dimension as powers of two: (512, 64) for 576; where that does not work out, one padded block and 0."""
    main = 1 << (dim.bit_length() - 1)
    rest = dim - main
    if main >= 16 and (rest == 0 or (rest >= 16 and rest & (rest - 1) == 0)):
        return main, rest
    return max(16, triton.next_power_of_2(dim)), 0
