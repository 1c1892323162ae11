"""Data-parallel attention: groups of ranks attend to requests of their own, all ranks share the MLPs and experts.

Before an MLP every rank gathers the tokens of all groups, after it each keeps its own.
Source: SGLang `layers/dp_attention.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import torch

from sglab.engine import ForwardBatch
from sglab.layers import collectives
from sglab.layers.moe.mixture import Mixture
from sglab.layers.parallel import TensorParallel


class DpPaddingMode(Enum):
    """How the groups' tokens are laid out together.

    Attributes:
        MAX_LEN: each group's padded to the longest: one all-gather.
        SUM_LEN: one after another, summed over ranks that have zeros elsewhere: one all-reduce.
    """

    MAX_LEN = "max_len"
    SUM_LEN = "sum_len"

    @classmethod
    def get_dp_padding_mode(cls, is_extend: bool, num_tokens: Sequence[int]) -> DpPaddingMode:
        """The layout that moves fewer bytes: an all-reduce moves each of its twice. Extends are never padded."""
        if is_extend or 2 * sum(num_tokens) <= max(num_tokens) * len(num_tokens):
            return cls.SUM_LEN
        return cls.MAX_LEN


@dataclass(frozen=True)
class DpBatch:
    """One pass of all groups (`ForwardBatch.dp`).

    Attributes:
        num_tokens: of each group; 0: it is idle.
        tp: all ranks; `tp.attention` is this rank's group.
    """

    num_tokens: tuple[int, ...]
    mode: DpPaddingMode
    tp: TensorParallel
    extends: bool = False
    """Whether any group's pass is an extend."""

    @property
    def rows(self) -> int:
        """Of each group in MAX_LEN: the longest, rounded up to a multiple of the ranks that share it."""
        ranks = self.tp.attention.size
        return -(-max(self.num_tokens) // ranks) * ranks

    @property
    def low_latency(self) -> bool:
        """Whether tokens travel to their experts in the low-latency way; every rank comes to the same."""
        fits = max(self.num_tokens) <= self.tp.a2a_room
        return fits and (self.tp.a2a == "low_latency" or (self.tp.a2a == "auto" and not self.extends))

    def gather(self, x: torch.Tensor) -> torch.Tensor:
        """This group's [tokens, hidden] -> all groups', the same on every rank; padded rows are zero."""
        mine = self.tp.attention
        if self.mode is DpPaddingMode.SUM_LEN:
            whole = x.new_zeros(sum(self.num_tokens), x.shape[1])
            if mine.rank == 0:
                start = sum(self.num_tokens[: self.tp.dp_rank])
                whole[start : start + len(x)] = x
            with collectives.meant("gather, SUM_LEN"):
                return self.tp.all_reduce(whole)
        padded = torch.nn.functional.pad(x, (0, 0, 0, self.rows - len(x)))
        with collectives.meant("gather, MAX_LEN"):
            return self.tp.all_gather(mine.shard(padded, 0).contiguous(), dim=0)

    def scatter(self, whole: torch.Tensor) -> torch.Tensor:
        """The rows of this group."""
        count, rank = self.num_tokens[self.tp.dp_rank], self.tp.dp_rank
        start = sum(self.num_tokens[:rank]) if self.mode is DpPaddingMode.SUM_LEN else rank * self.rows
        return whole[start : start + count]


class TokenShares(Protocol):
    """Of a prompt whose new tokens are spread over ranks (`sglab.attention.cp.layout.PromptShares`)."""

    def shard(self, x: torch.Tensor) -> torch.Tensor:
        """[tokens, …] -> this rank's rows."""

    def gather(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's rows -> [tokens, …] of all, in order."""


def rows_of_all(shares: TokenShares, x: torch.Tensor) -> torch.Tensor:
    """`shares.gather`, named for a recording of ranks."""
    with collectives.meant("rows of the prompts"):
        return shares.gather(x)


def run_on_all_tokens(mlp: Callable[[torch.Tensor], Any], x: torch.Tensor, forward_batch: ForwardBatch) -> Any:
    """mlp(x); where groups attend apart, of all groups' tokens, of which this group's are returned; so, too, where a
    prompt's tokens are spread over ranks.

    A mixture may run on this group's alone, which then travel to their experts.
    """
    dp: DpBatch | None = forward_batch.dp
    if dp is not None and dp.tp.a2a is not None and isinstance(mlp, Mixture):
        return mlp.on_own_tokens(x, dp.low_latency)
    shares: TokenShares | None = forward_batch.attn_cp_metadata
    if shares is not None:
        return shares.shard(mlp(rows_of_all(shares, x)))
    return mlp(x) if dp is None else dp.scatter(mlp(dp.gather(x)))
