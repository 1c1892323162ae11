# mypy: disable-error-code="no-untyped-def"
"""Two launches: the best of each part of each row, then the best of a row's parts."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sglab.kernels.sampling.gumbel import COLUMNS, GumbelArguments
from sglab.triton import LaunchRecord, triton_kernel

PARTS = 16
"""Of each row, whatever their number: another would be another kernel to compile while requests come and go."""


@triton_kernel
def _score(logits, column, width, inverse, random, noise):
    """logit / temperature + noise: −log of an exponential, whose small values, the winning ones, keep their digits."""
    uniform = (random.to(tl.float32) + 0.5) * 2.3283064365386963e-10
    small = uniform + uniform * uniform * (0.5 + uniform * 0.33333333)
    exponential = tl.where(uniform < 1e-3, small, -tl.log(1.0 - uniform))
    logit = tl.load(logits + column, mask=column < width, other=-float("inf")).to(tl.float32)
    return logit * inverse - tl.log(exponential) * noise


@triton_kernel
def gumbel_parts_kernel(
    logits_ptr,
    temperatures_ptr,
    greedy_ptr,
    state_ptr,
    best_ptr,
    token_ptr,
    width,
    steps,
    stride,
    PARTS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Row program_id(0), part program_id(1): `steps` steps of COLUMNS columns."""
    row, part = tl.program_id(0), tl.program_id(1)
    greedy = tl.load(greedy_ptr + row) != 0
    inverse = tl.where(greedy, 1.0, 1.0 / tl.load(temperatures_ptr + row))
    noise = tl.where(greedy, 0.0, 1.0)
    seed, draw = tl.load(state_ptr), tl.load(state_ptr + 1)
    logits = logits_ptr + row.to(tl.int64) * stride
    QUARTER: tl.constexpr = COLUMNS // 4
    place = tl.arange(0, QUARTER)
    best = tl.full([QUARTER], -float("inf"), tl.float32)
    token = tl.zeros([QUARTER], tl.int32) + width
    for step in range(part * steps, part * steps + steps):
        counter = (step * QUARTER + place).to(tl.uint32)
        high = counter * 0
        r0, r1, r2, r3 = tl.philox(
            seed, counter, high + row.to(tl.uint32), high + draw.to(tl.uint32), high + (draw >> 32).to(tl.uint32)
        )
        for quarter in tl.static_range(4):
            random = r0 if quarter == 0 else r1 if quarter == 1 else r2 if quarter == 2 else r3
            column = step * COLUMNS + quarter * QUARTER + place
            score = _score(logits, column, width, inverse, random, noise)
            better = (score > best) & (column < width)
            best = tl.where(better, score, best)
            token = tl.where(better, column, token)
    top = tl.max(best, axis=0)
    at = row * PARTS + part
    tl.store(best_ptr + at, top)
    tl.store(token_ptr + at, tl.min(tl.where(best == top, token, width), axis=0))


@triton_kernel
def gumbel_rows_kernel(best_ptr, token_ptr, state_ptr, out_ptr, width, PARTS: tl.constexpr):
    row = tl.program_id(0)
    at = row * PARTS + tl.arange(0, PARTS)
    best = tl.load(best_ptr + at)
    token = tl.min(tl.where(best == tl.max(best, axis=0), tl.load(token_ptr + at), width), axis=0)
    tl.store(out_ptr + row, tl.minimum(token, width - 1).to(tl.int64))
    if row == 0:
        tl.store(state_ptr + 1, tl.load(state_ptr + 1) + 1)


def run(a: GumbelArguments) -> tuple[LaunchRecord, ...]:
    rows, width = a.logits.shape
    best = torch.empty(rows, PARTS, dtype=torch.float32, device=a.device)
    token = torch.empty(rows, PARTS, dtype=torch.int32, device=a.device)
    first = gumbel_parts_kernel[(rows, PARTS)](
        *(a.logits, a.temperatures, a.greedy, a.state, best, token),
        *(width, triton.cdiv(width, COLUMNS * PARTS), a.logits.stride(0)),
        PARTS=PARTS,
        COLUMNS=COLUMNS,
        num_warps=4,
    )
    second = gumbel_rows_kernel[(rows,)](best, token, a.state, a.out, width, PARTS=PARTS, num_warps=1)
    return first, second
