"""Who has which new tokens of a prompt's pass, and what a rank's queries attend to.

Zigzag: each request's new tokens are 2 · size blocks, of which rank r has block r and block 2 · size − 1 − r: an early
one, whose queries see few keys, and a late one. Interleaved: the tokens of all requests, one after another, take turns.
Source: SGLang 0.5.23 `layers/cp/zigzag.py`, `interleave.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.attention.capabilities import SHARED_MODES
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode
from sglab.engine.rank_group import RankGroup


@dataclass(frozen=True)
class PromptShares:
    """The shares of one pass. `shard` and `gather` take what has a row per new token.

    Attributes:
        counts: rows of each rank.
        own: int64 [own rows], which of the batch's tokens this rank has, in the order of its pieces.
        order: int64 [tokens], where each lies among the rows of all ranks, each padded to the longest.
        requests, q_lens, kv_lens: of this rank's pieces, whose each is, how many tokens it has, and how many keys its
            last token sees.
    """

    group: RankGroup
    counts: tuple[int, ...]
    own: torch.Tensor
    order: torch.Tensor
    requests: list[int]
    q_lens: list[int]
    kv_lens: list[int]

    @classmethod
    def of(cls, batch: ForwardBatch, group: RankGroup, interleaves: bool) -> PromptShares | None:
        """None: every rank has all of this pass. So it is with other modes, and with prompts of fewer tokens than there
        are blocks; one of a batch is enough where blocks are cut.

        Raises:
            BadArgumentError: an extend without its lengths on the host.
        """
        if group.size == 1 or batch.forward_mode not in SHARED_MODES:
            return None
        new, prefixes = batch.extend_seq_lens_cpu, batch.extend_prefix_lens_cpu
        if new is None or prefixes is None:
            remedy = "ForwardBatch.init_new fills it from the worker batch."
            raise BadArgumentError("forward_batch.extend_seq_lens_cpu", "new tokens per request", None, remedy)
        if sum(new) < group.size if interleaves else min(new, default=0) < 2 * group.size:
            return None
        return (_interleaved if interleaves else _zigzag)(new, prefixes, group, batch.seq_lens.device)

    def shard(self, x: torch.Tensor) -> torch.Tensor:
        """[tokens, …] -> this rank's rows."""
        return x[self.own]

    def gather(self, x: torch.Tensor) -> torch.Tensor:
        """This rank's rows -> [tokens, …] of all, in the batch's order; every rank must call it at once."""
        padded = x.new_zeros(max(self.counts), *x.shape[1:])
        padded[: len(x)] = x
        return self.group.all_gather(padded, dim=0)[self.order]

    def pieces(self, batch: ForwardBatch) -> ForwardBatch:
        """What this rank's queries attend to: an extend whose requests are its pieces."""
        device, rows = batch.seq_lens.device, batch.req_pool_indices
        before = [kv - q for q, kv in zip(self.q_lens, self.kv_lens, strict=True)]
        kv_lens, q_lens = (torch.tensor(lens, dtype=torch.int64) for lens in (self.kv_lens, self.q_lens))
        return ForwardBatch(
            forward_mode=ForwardMode.EXTEND,
            batch_size=len(self.requests),
            input_ids=self.shard(batch.input_ids),
            req_pool_indices=rows[torch.tensor(self.requests, device=device)],
            seq_lens=kv_lens.to(device),
            out_cache_loc=self.shard(batch.out_cache_loc),
            seq_lens_sum=sum(self.kv_lens),
            seq_lens_cpu=kv_lens,
            extend_num_tokens=len(self.own),
            extend_seq_lens=q_lens.to(device, torch.int32),
            extend_prefix_lens=torch.tensor(before, dtype=torch.int32, device=device),
            extend_seq_lens_cpu=self.q_lens,
            extend_prefix_lens_cpu=before,
            req_to_token_pool=batch.req_to_token_pool,
            token_to_kv_pool=batch.token_to_kv_pool,
        )


def _zigzag(new: list[int], prefixes: list[int], group: RankGroup, device: torch.device) -> PromptShares:
    """The early blocks of all requests, then their late ones."""
    blocks = 2 * group.size
    edges = []
    """Of each request where its blocks begin in the batch, and the end of the last; the first have the remainder."""
    start = 0
    for count in new:
        base, rest = divmod(count, blocks)
        edges.append([start + base * block + min(block, rest) for block in range(blocks + 1)])
        start += count

    def spans(rank: int) -> list[tuple[int, int, int]]:
        halves = (rank, blocks - 1 - rank)
        return [(i, each[block], each[block + 1]) for block in halves for i, each in enumerate(edges)]

    rows = [torch.cat([torch.arange(a, b) for _, a, b in spans(rank)]) for rank in range(group.size)]
    mine = spans(group.rank)
    requests, q_lens = [i for i, _, _ in mine], [b - a for _, a, b in mine]
    kv_lens = [prefixes[i] + b - edges[i][0] for i, _, b in mine]
    return _shares(rows, requests, q_lens, kv_lens, group, device)


def _interleaved(new: list[int], prefixes: list[int], group: RankGroup, device: torch.device) -> PromptShares:
    """Each token is a piece."""
    rows = [torch.arange(rank, sum(new), group.size) for rank in range(group.size)]
    seen = [(i, prefixes[i] + at + 1) for i, count in enumerate(new) for at in range(count)][group.rank :: group.size]
    requests, kv_lens = [i for i, _ in seen], [kv for _, kv in seen]
    return _shares(rows, requests, [1] * len(seen), kv_lens, group, device)


def _shares(
    rows: list[torch.Tensor],
    requests: list[int],
    q_lens: list[int],
    kv_lens: list[int],
    group: RankGroup,
    device: torch.device,
) -> PromptShares:
    counts = tuple(map(len, rows))
    order = torch.empty(sum(counts), dtype=torch.int64)
    for rank, theirs in enumerate(rows):
        order[theirs] = rank * max(counts) + torch.arange(len(theirs))
    return PromptShares(group, counts, rows[group.rank].to(device), order.to(device), requests, q_lens, kv_lens)
