"""A prompt's pass over a cached MLA prefix with expanded keys and values: the prefix a part at a time, merged by LSE.

Expanded attention takes fewer operations per key than absorbed attention where there are many new tokens, but a prefix
of 100,000 tokens expanded to 128 heads would fill a GPU. So the new tokens attend to themselves, then to a part of
every request's prefix, without causality, and the two results are merged; and so on. A merge reads what it merges, so
its result goes to another pair of buffers, and the pairs change places.
Source: SGLang 0.5.23 `model_executor/forward_batch_deepseek_mha_mixin.py`, MHA_CHUNKED_KV.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from sglab.engine import ForwardBatch, MLATokenToKVPool
from sglab.engine import RadixAttention as AttentionShape
from sglab.kernels import flash_attn_varlen_func, merge_state_v2

TOKENS_AT_ONCE = 131_072
"""Of all requests' prefixes together."""

Expand = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""Latent [n, 1, rank] and rotary [n, 1, rope] rows -> k [n, heads, nope + rope] and v [n, heads, v]."""


class Part(NamedTuple):
    """Of each request's prefix the tokens from starts[i] on, lens[i] of them."""

    starts: list[int]
    lens: list[int]


def parts_of(prefix_lens: Sequence[int], tokens_at_once: int = TOKENS_AT_ONCE) -> list[Part]:
    """The parts that prefixes are read in: of each request as many tokens, so long as it has them."""
    size = max(tokens_at_once // max(len(prefix_lens), 1), 1)
    parts = []
    for begin in range(0, max(prefix_lens, default=0), size):
        lens = [min(max(length - begin, 0), size) for length in prefix_lens]
        parts.append(Part([min(begin, length) for length in prefix_lens], lens))
    return parts


def attend_expanded(
    q: torch.Tensor,
    latent: torch.Tensor,
    k_rope: torch.Tensor,
    layer: AttentionShape,
    scaling: float,
    expand: Expand,
    batch: ForwardBatch,
    tokens_at_once: int = TOKENS_AT_ONCE,
) -> torch.Tensor:
    """[tokens, heads, v] of an extend's new tokens, whose rows are in the pool.

    Args:
        q: [tokens, heads, nope + rope].
        latent, k_rope: of the new tokens, as they go to the pool.
        layer: whose rows of the pool.
    """
    pool, table = batch.token_to_kv_pool, batch.req_to_token_pool
    assert isinstance(pool, MLATokenToKVPool) and table is not None
    new, prefixes = batch.extend_seq_lens_cpu or [], batch.extend_prefix_lens_cpu or []
    cu_q, most = cumulated(new, q.device), max(new, default=0)

    def attend(k: torch.Tensor, v: torch.Tensor, lens: list[int], causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
        cu_k = cumulated(lens, q.device)
        o, lse = flash_attn_varlen_func(
            q, k, v, cu_q, cu_k, most, max(lens), softmax_scale=scaling, causal=causal, return_softmax_lse=True
        )
        return o, lse.T.contiguous()

    o, lse = attend(*expand(latent, k_rope), list(new), True)
    other_o, other_lse = torch.empty_like(o), torch.empty_like(lse)
    rows = batch.req_pool_indices.tolist()
    for part in parts_of(prefixes, tokens_at_once):
        runs = zip(rows, part.starts, part.lens, strict=True)
        slots = torch.cat([table.req_to_token[row, start : start + count] for row, start, count in runs]).long()
        k, v = expand(*pool.get_mla_kv_buffer(layer, slots, q.dtype))
        part_o, part_lse = attend(k, v, part.lens, False)
        merge_state_v2(part_o, part_lse, o, lse, other_o, other_lse)
        (o, lse), (other_o, other_lse) = (other_o, other_lse), (o, lse)
    return o


def cumulated(lens: Sequence[int], device: torch.device) -> torch.Tensor:
    """int32 [B + 1], where each request's tokens begin."""
    return torch.tensor(
        [0, *torch.tensor(lens, dtype=torch.int64).cumsum(0).tolist()], dtype=torch.int32, device=device
    )
