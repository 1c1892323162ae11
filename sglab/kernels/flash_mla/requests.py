"""Several query tokens per request as the decode kernels take them: every row of a request sees the same KV tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.flash_mla.contract import FlashMLAArguments
from sglab.kernels.mla.arguments import MAX_HEADS
from sglab.planning.flash_mla import HEAD_DIM_V


@dataclass(frozen=True)
class Requests:
    """A call's requests, each cut into `per_request` of them that share its pages.

    q (requests, rows, 576), lengths (requests,) int32, block_table (requests, width); out (requests, rows, 512), a view
    of the call's; lse (requests, rows) float32, natural
    """

    per_request: int
    q: torch.Tensor
    lengths: torch.Tensor
    block_table: torch.Tensor
    out: torch.Tensor
    lse: torch.Tensor

    @property
    def rows(self) -> int:
        return self.q.shape[1]


def requests_of(a: FlashMLAArguments) -> Requests:
    """Query tokens that see the same KV tokens are further rows, where there is room for them; else, and where a causal
    mask hides other tokens from each, they are requests of their own."""
    batch, tokens, heads, dim = a.q.shape
    together = tokens == 1 or (not a.causal and tokens * heads <= MAX_HEADS)
    per_request, rows = (1, tokens * heads) if together else (tokens, heads)
    count = batch * per_request
    return Requests(
        per_request,
        a.q.reshape(count, rows, dim),
        a.cache_seqlens if together else _lengths(a, tokens),
        a.block_table if together else a.block_table.repeat_interleave(tokens, 0),
        a.out.view(count, rows, HEAD_DIM_V),
        a.lse.view(count, rows) if tokens == 1 else a.lse.new_empty(count, rows),
    )


def _lengths(a: FlashMLAArguments, tokens: int) -> torch.Tensor:
    """What each query token sees: token i of n all but the last n − 1 − i, if causal. 0 where that is nothing."""
    hidden = torch.arange(tokens - 1, -1, -1, dtype=torch.int32, device=a.device) * a.causal
    return (a.cache_seqlens.unsqueeze(-1) - hidden).clamp(min=0).flatten()


def deliver_lse(a: FlashMLAArguments, requests: Requests) -> None:
    """To the call's (batch, heads, query tokens), where the kernels did not write there themselves."""
    batch, tokens, heads, _ = a.q.shape
    if tokens > 1:
        a.lse.copy_(requests.lse.view(batch, tokens, heads).transpose(1, 2))
