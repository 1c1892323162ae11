"""CUDA-graph capture sizes and the choice of one at replay.

Source: SGLang 0.5.9 `server_args.py` (`_generate_cuda_graph_batch_sizes`, `_generate_piecewise_cuda_graph_tokens`) and
`model_executor/cuda_graph_runner.py` (`get_batch_sizes_to_capture`, `replay_prepare`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from sglab.planning import check


def capture_batch_sizes(max_bs: int, *, speculative: bool = False, disable_padding: bool = False) -> list[int]:
    """Batch sizes for which SGLang captures a decode graph, ascending, all <= `max_bs`.

    Speculative decoding pads less at small batches; `disable_padding` captures every size.
    """
    max_bs = check.integer("max_bs", max_bs, minimum=1)
    if disable_padding:
        return list(range(1, max_bs + 1))
    if speculative:
        sizes = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, max_bs + 1, 16)]
    else:
        sizes = [1, 2, 4, 8, 12, *range(16, 257, 8), *range(272, 512, 16), *range(512, max_bs + 1, 32)]
    return [size for size in sizes if size <= max_bs]


def capture_order(sizes: Sequence[int]) -> list[int]:
    """Largest first, so that smaller graphs reuse the memory pool of larger ones."""
    return sorted(sizes, reverse=True)


def limit_to_pool(sizes: Sequence[int], req_to_token_pool_size: int) -> list[int]:
    """The sizes that the request pool can hold; the pool's own size is added when the list exceeds it."""
    pool = check.integer("req_to_token_pool_size", req_to_token_pool_size, minimum=1)
    if not sizes:
        raise check.fail("sizes", "at least one batch size", "none", "call capture_batch_sizes(max_bs)")
    wanted = [*sizes, pool] if max(sizes) > pool else list(sizes)
    return sorted({size for size in wanted if size <= pool})


def replay_batch_size(sizes: Sequence[int], raw_bs: int) -> int:
    """The captured size that a batch of `raw_bs` requests replays; the rest is padding.

    `sizes` ascend. A batch above the largest runs without a graph, which is an error here.
    """
    raw_bs = check.integer("raw_bs", raw_bs, minimum=1)
    index = bisect_left(sizes, raw_bs)
    if index == len(sizes):
        remedy = "run without a graph, or capture a larger size"
        raise check.fail("raw_bs", f"at most {max(sizes, default=0)}, the largest captured size", raw_bs, remedy)
    return sizes[index]


def piecewise_capture_tokens(max_tokens: int) -> list[int]:
    """Token counts for which piecewise (extend) graphs are captured, ascending, all <= `max_tokens`."""
    max_tokens = check.integer("max_tokens", max_tokens, minimum=1)
    sizes = [
        *range(4, 33, 4),
        *range(48, 257, 16),
        *range(288, 513, 32),
        *range(576, 1025, 64),
        *range(1280, 4097, 256),
        *range(4608, max_tokens + 1, 512),
    ]
    return [size for size in sizes if size <= max_tokens]
