"""TboAttnBackend: two-batch overlap. A pass is cut into two micro-batches, so that one computes while the other
communicates; each has a backend of its own with its own metadata.

Source: SGLang 0.5.9 `tbo_backend.py`, `batch_overlap/two_batch_overlap.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.combined.delegating import DelegatingBackend
from sglab.attention.create import create_attention_backend
from sglab.engine import ForwardBatch, ForwardMode, ModelRunner

TOKEN_DISTRIBUTION_THRESHOLD = 0.48
"""A prompt batch whose better cut between requests leaves a side less than this share is cut through a request."""


@dataclass(frozen=True)
class Cut:
    """Where a batch is cut: `request` starts the right part; with `two_chunk` it also ends the left one."""

    request: int
    token: int
    two_chunk: bool = False


def split_by_balanced_sum(lens: Sequence[int]) -> int:
    """The request at which both sides have the nearest sums; the later of two equally near."""
    best, least, left, total = 0, float("inf"), 0, sum(lens)
    for i in range(1, len(lens)):
        left += lens[i - 1]
        difference = abs(2 * left - total)
        if difference > least:
            break
        best, least = i, difference
    return best


def is_two_chunk(lens: Sequence[int]) -> bool:
    """Whether the nearest cut between requests is too uneven."""
    left, total = sum(lens[: split_by_balanced_sum(lens)]), sum(lens)
    threshold = TOKEN_DISTRIBUTION_THRESHOLD
    return left < total * threshold or left > total * (1 - threshold)


def compute_cut(mode: ForwardMode, num_requests: int, extend_lens: Sequence[int] | None, drafts: int = 1) -> Cut | None:
    """Where a pass is cut; None: it is not cut (MIXED, and what has one token alone)."""
    if mode.is_decode() or mode.is_target_verify():
        half = num_requests // 2
        return Cut(half, half * drafts) if half else None
    if mode is not ForwardMode.EXTEND or extend_lens is None or sum(extend_lens) < 2:
        return None
    if not is_two_chunk(extend_lens):
        request = split_by_balanced_sum(extend_lens)
        return Cut(request, sum(extend_lens[:request]))
    half, left = sum(extend_lens) // 2, 0
    for i, count in enumerate(extend_lens):
        left += count
        if left > half:
            return Cut(i, half, two_chunk=left - count != half)
    return None


def split_batch(batch: ForwardBatch) -> tuple[ForwardBatch, ForwardBatch] | None:
    """The two micro-batches; None: the pass is not cut. A request that is cut extends by its first tokens in the left
    one; in the right one these belong to its prefix."""
    drafts = batch.spec_info.draft_token_num if batch.forward_mode.is_target_verify() else 1
    cut = compute_cut(batch.forward_mode, batch.batch_size, batch.extend_seq_lens_cpu, drafts)
    if cut is None:
        return None
    left = _part(batch, slice(0, cut.request + cut.two_chunk), slice(0, cut.token))
    right = _part(batch, slice(cut.request, batch.batch_size), slice(cut.token, len(batch.input_ids)))
    if cut.two_chunk:
        assert batch.extend_seq_lens_cpu is not None
        taken = cut.token - sum(batch.extend_seq_lens_cpu[: cut.request])
        return _shortened(left, taken), _advanced(right, taken)
    return left, right


def _part(batch: ForwardBatch, requests: slice, tokens: slice) -> ForwardBatch:
    """Some requests with some tokens; a tree's masks are cut where the requests are."""
    fields = ("req_pool_indices", "seq_lens", "seq_lens_cpu", "orig_seq_lens", "extend_seq_lens", "extend_prefix_lens")
    lists = ("extend_prefix_lens_cpu", "extend_seq_lens_cpu", "encoder_lens", "encoder_lens_cpu")
    made: dict[str, Any] = {
        name: None if (got := getattr(batch, name)) is None else got[requests] for name in (*fields, *lists)
    }
    host = made["seq_lens_cpu"] if made["seq_lens_cpu"] is not None else made["seq_lens"]
    rest: dict[str, Any] = {
        "batch_size": len(made["req_pool_indices"]),
        "input_ids": batch.input_ids[tokens],
        "out_cache_loc": batch.out_cache_loc[tokens],
        "positions": None if batch.positions is None else batch.positions[tokens],
        "seq_lens_sum": int(host.sum()),
        "extend_num_tokens": None if batch.extend_num_tokens is None else tokens.stop - tokens.start,
        "spec_info": _drafts(batch, requests) if batch.forward_mode.is_target_verify() else batch.spec_info,
    }
    return _with_starts(replace(batch, **made, **rest))


def _with_starts(batch: ForwardBatch) -> ForwardBatch:
    if batch.extend_seq_lens is None:
        return batch
    ends = torch.cumsum(batch.extend_seq_lens, 0)
    return replace(batch, extend_start_loc=(ends - batch.extend_seq_lens).to(torch.int32))


def _drafts(batch: ForwardBatch, requests: slice) -> object:
    spec = batch.spec_info
    widths = [(length + spec.draft_token_num) * spec.draft_token_num for length in batch.seq_lens.tolist()]
    first, last = sum(widths[: requests.start]), sum(widths[: requests.stop])
    return replace(spec, custom_mask=spec.custom_mask[first:last])


def _shortened(left: ForwardBatch, taken: int) -> ForwardBatch:
    """The last request ends after its first `taken` new tokens."""
    assert left.extend_seq_lens_cpu is not None
    missing = left.extend_seq_lens_cpu[-1] - taken
    return _changed(left, -1, -missing, -missing, 0)


def _advanced(right: ForwardBatch, taken: int) -> ForwardBatch:
    """The first `taken` new tokens of the first request are its prefix's."""
    return _changed(right, 0, 0, -taken, taken)


def _changed(batch: ForwardBatch, at: int, length: int, new: int, prefix: int) -> ForwardBatch:
    """A batch with one request's lengths changed; what it shares with the whole batch stays as it is."""

    def added(values: torch.Tensor | None, change: int) -> torch.Tensor | None:
        if values is None:
            return None
        made = values.clone()
        made[at] += change
        return made

    assert batch.extend_seq_lens_cpu is not None
    assert batch.extend_prefix_lens_cpu is not None
    news, prefixes = list(batch.extend_seq_lens_cpu), list(batch.extend_prefix_lens_cpu)
    news[at], prefixes[at] = news[at] + new, prefixes[at] + prefix
    lens = added(batch.seq_lens, length)
    assert lens is not None
    changed: dict[str, Any] = {
        "seq_lens": lens,
        "seq_lens_cpu": added(batch.seq_lens_cpu, length),
        "seq_lens_sum": batch.seq_lens_sum + length,
        "extend_seq_lens": added(batch.extend_seq_lens, new),
        "extend_prefix_lens": added(batch.extend_prefix_lens, prefix),
        "extend_seq_lens_cpu": news,
        "extend_prefix_lens_cpu": prefixes,
    }
    return _with_starts(replace(batch, **changed))


class TboAttnBackend(DelegatingBackend):
    """`primary` serves whole passes, `children` the two micro-batches of a pass that is cut.

    A micro-batch's `attn_backend` is its child; whoever runs the model gives each its rows of the activations.
    """

    name = "tbo"

    def __init__(self, primary: AttentionBackend, children: tuple[AttentionBackend, AttentionBackend]) -> None:
        super().__init__(primary)
        self.primary, self.children = primary, children
        self.capabilities = primary.capabilities  # type: ignore[misc]
        self.graph_seq_len_fill_value = primary.graph_seq_len_fill_value  # type: ignore[misc]
        self.micro_batches: tuple[ForwardBatch, ForwardBatch] | None = None

    @classmethod
    def of(cls, name: str, runner: ModelRunner) -> TboAttnBackend:
        """Three backends of one name."""
        child = replace(runner, check_metadata=False)  # a part of a request is no request of the pool's
        children = create_attention_backend(name, child), create_attention_backend(name, child)
        return cls(create_attention_backend(name, runner), children)

    def select(self, forward_mode: ForwardMode) -> AttentionBackend:
        return self.primary

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        self.micro_batches = split_batch(forward_batch)
        for child, batch in zip(self.children, self.micro_batches or (), strict=False):
            batch.attn_backend = child
            child.prepare(batch)

    def init_graph(self, max_bs: int, max_num_tokens: int) -> None:
        for backend in (self.primary, *self.children):
            backend.init_graph(max_bs, max_num_tokens)
