"""A product of two matrices in plain Triton, which every architecture has another instruction for."""

import triton
import triton.language as tl

SIZE = 64


@triton.jit
def product(
    a, b, c, source, target, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, COPIES: tl.constexpr,
):  # fmt: skip
    """C = A B in float32; with COPIES, N elements of source to target, as they are."""
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    sums = tl.zeros((BM, BN), tl.float32)
    for begin in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + (begin + inner)[None, :])
        right = tl.load(b + (begin + inner)[:, None] * N + columns[None, :])
        sums += tl.dot(left, right)
    tl.store(c + rows[:, None] * N + columns[None, :], sums)
    if COPIES:
        tl.store(target + columns, tl.load(source + columns))
