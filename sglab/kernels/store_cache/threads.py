"""How many threads copy a token's rows."""

from __future__ import annotations


def num_threads(row_bytes: int, v_row_bytes: int) -> int:
    """Threads per token: 32, doubled while each still copies 64 bytes of K and V together, in multiples of 8.

    Source: SGLang 0.5.23 `kernels/ops/kvcache/kvcache.py`. Rows of 2,048 bytes each: 64 + 64 bytes a thread, then 32 +
    32, then 16 + 16: 128 threads.
    """
    threads, k, v = 32, row_bytes // 32, v_row_bytes // 32
    while k % 8 == 0 and v % 8 == 0 and k + v >= 64:
        threads, k, v = threads * 2, k // 2, v // 2
    return threads
