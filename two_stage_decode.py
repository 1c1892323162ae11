"""Lab 09: decode attention in two stages, in Triton. 4 query heads share one KV head of 32 dims; pages of 16 tokens.

Only kernels may compute: what Python computes from the tensors' values is not there when the launches are judged.
"""

import triton.language as tl

from sglab.triton import triton_kernel

HEADS, DIM, PAGE = 4, 32, 16


@triton_kernel
def stage_1(q, k, v, page_table, seq_lens, partial, lse, scale, pages, SPLITS: tl.constexpr):
    pass


@triton_kernel
def stage_2(partial, lse, out, SPLITS: tl.constexpr):
    pass


def decode(q, k, v, page_table, seq_lens, out, scale, splits):
    """Fills out.

    Args:
        q: (requests, 4, 32) float16.
        k, v: (pages, 16, 32) float16.
        page_table: (requests, most pages) int32.
        seq_lens: (requests,) int32.
        out: (requests, 4, 32) float32.
        splits: parts that each request is cut into.
    """
