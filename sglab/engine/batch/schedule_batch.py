"""ScheduleBatch and ModelWorkerBatch: a batch on its way from the scheduler to the model.

ScheduleBatch (scheduler, mostly host data) -> ModelWorkerBatch (what a forward pass needs of it) -> ForwardBatch
(tensors on the device, with positions). Source: SGLang 0.5.9 `managers/schedule_batch.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch

from sglab.engine.batch.allocation import SeqLens, alloc_for_decode, alloc_for_extend, alloc_for_verify
from sglab.engine.batch.forward_mode import ForwardMode
from sglab.engine.batch.req import Req
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.cache.req_to_token_pool import ReqToTokenPool


def _empty() -> torch.Tensor:
    return torch.empty(0, dtype=torch.int64)


@dataclass
class ModelWorkerBatch:
    """The part of a ScheduleBatch that a forward pass needs; made by `ScheduleBatch.get_model_worker_batch`."""

    forward_mode: ForwardMode
    input_ids: torch.Tensor
    req_pool_indices: torch.Tensor
    seq_lens: torch.Tensor
    out_cache_loc: torch.Tensor
    seq_lens_cpu: torch.Tensor
    seq_lens_sum: int
    extend_num_tokens: int | None = None
    extend_seq_lens: list[int] | None = None
    extend_prefix_lens: list[int] | None = None
    orig_seq_lens: torch.Tensor | None = None
    spec_info: Any = None
    encoder_lens: torch.Tensor | None = None
    """Models with an encoder (`encoders`): int64 [B], and the last two of the encoders that run in this pass."""
    encoder_lens_cpu: list[int] | None = None
    encoder_input_ids: list[torch.Tensor] | None = None
    encoder_out_cache_loc: torch.Tensor | None = None
    rids: list[str] | None = None
    """The requests' names; None: not known."""


class AdvancingBatch(ModelWorkerBatch):
    """A decode that a captured graph is to run which counts lengths itself and writes slots to the requests' rows.

    Attributes:
        lengths: `seq_lens_cpu` as numbers.
        rows_written: whether that is launched. The scheduler does it before anything reads the rows if it is not.
    """

    def __init__(self, batch: ScheduleBatch) -> None:
        self.forward_mode = ForwardMode.DECODE
        self.input_ids, self.req_pool_indices = batch.input_ids, batch.req_pool_indices
        self.out_cache_loc, self.lengths = batch.out_cache_loc, batch.lengths
        self._lens, self._lens_cpu = batch.lens, batch.lens_cpu
        self._pool, self.rows_written = batch.req_to_token_pool, False

    @property
    def seq_lens(self) -> torch.Tensor:  # type: ignore[override]
        return self._lens.read()

    @property
    def seq_lens_cpu(self) -> torch.Tensor:  # type: ignore[override]
        return self._lens_cpu.read()

    @property
    def seq_lens_sum(self) -> int:  # type: ignore[override]
        return sum(self.lengths)

    def write_rows(self) -> None:
        """Write the slots to `req_to_token`."""
        self._pool.write((self.req_pool_indices, self.seq_lens - 1), self.out_cache_loc)
        self.rows_written = True


@dataclass
class ScheduleBatch:
    """Requests that run together, and the pools they live in.

    `init_new` fills the first four fields; each `prepare_for_*` fills the rest for one forward pass. A refused prepare
    (`PoolExhaustedError`) leaves the batch, the pools, the allocator and the tree as they were.
    """

    reqs: list[Req]
    req_to_token_pool: ReqToTokenPool
    tree_cache: RadixCache
    device: torch.device
    forward_mode: ForwardMode = ForwardMode.IDLE
    input_ids: torch.Tensor = field(default_factory=_empty)
    """int64 [tokens], the tokens to compute."""
    req_pool_indices: torch.Tensor = field(default_factory=_empty)
    """int64 [B], rows of ReqToTokenPool."""
    lens: SeqLens = field(default_factory=lambda: SeqLens(_empty()))
    """Of `seq_lens`."""
    lens_cpu: SeqLens = field(default_factory=lambda: SeqLens(_empty()))
    """Of `seq_lens_cpu`."""
    lengths: list[int] = field(default_factory=list)
    """DECODE: lengths as numbers."""
    out_cache_loc: torch.Tensor = field(default_factory=_empty)
    """int64 [tokens], slots that this pass's tokens are written to."""
    output_ids: torch.Tensor | None = None
    """int64 [B], the tokens sampled last; become input_ids of the next decode."""
    prefix_lens: list[int] = field(default_factory=list)
    """Extend: tokens of each request already in the pool."""
    extend_lens: list[int] = field(default_factory=list)
    """Extend: tokens to compute per request."""
    extend_num_tokens: int = 0
    mixed_from: int | None = None
    """MIXED: the first of the requests that decode in this pass."""
    decoding: Any = None
    """Whatever the scheduler knows of these requests' decodes; None as soon as others are in the batch."""
    advancing: bool = False
    """DECODE: see `prepare_for_decode`."""
    batch_is_full: bool = False
    """The running batch: no request can join before one leaves."""

    @classmethod
    def init_new(cls, reqs: list[Req], tree_cache: RadixCache) -> ScheduleBatch:
        pool = tree_cache.req_to_token_pool
        return cls(reqs=list(reqs), req_to_token_pool=pool, tree_cache=tree_cache, device=pool.device)

    def batch_size(self) -> int:
        return len(self.reqs)

    def is_empty(self) -> bool:
        return not self.reqs

    @property
    def seq_lens(self) -> torch.Tensor:
        """int64 [B], lengths with this pass's tokens."""
        return self.lens.read()

    @seq_lens.setter
    def seq_lens(self, value: torch.Tensor) -> None:
        self.lens = SeqLens(value)

    @property
    def seq_lens_cpu(self) -> torch.Tensor:
        """The same on the CPU: planning must not wait for the device."""
        return self.lens_cpu.read()

    @seq_lens_cpu.setter
    def seq_lens_cpu(self, value: torch.Tensor) -> None:
        self.lens_cpu = SeqLens(value)

    @property
    def seq_lens_sum(self) -> int:
        return sum(self.seq_lens_cpu.tolist())  # of a few hundred numbers faster than an operation and its item()

    def prepare_for_extend(self) -> None:
        """Allocate for the tokens after each request's cached prefix; `Req.init_next_round_input` comes first."""
        draft = ScheduleBatch.init_new(self.reqs, self.tree_cache)
        draft.forward_mode = ForwardMode.EXTEND
        draft.prefix_lens = [len(req.prefix_indices) for req in self.reqs]
        draft.extend_lens = [req.extend_input_len for req in self.reqs]
        draft.extend_num_tokens = sum(draft.extend_lens)
        draft._set_lens([len(req.fill_ids) for req in self.reqs])
        new_tokens = [req.fill_ids[len(req.prefix_indices) :] for req in self.reqs]
        draft.input_ids = torch.tensor(list(chain.from_iterable(new_tokens)), dtype=torch.int64, device=self.device)
        draft.out_cache_loc, draft.req_pool_indices = alloc_for_extend(draft)
        for req in self.reqs:
            req.kv_committed_len = len(req.fill_ids)
        self._adopt(draft)

    def prepare_for_decode(self, advancing: bool = False) -> None:
        """Allocate one slot per request for the token in `output_ids`, which becomes the input.

        Args:
            advancing: leave to the pass what an `AdvancingBatch` leaves to it, which `get_model_worker_batch` gives.
        """
        if self.output_ids is None:
            raise ValueError("prepare_for_decode needs output_ids: the tokens sampled by the pass before")
        # New tensors: a pass that still runs reads the old ones.
        longer = self.lens.longer()
        longer_cpu = longer if self.device.type == "cpu" else self.lens_cpu.longer()
        lengths = [req.kv_committed_len + 1 for req in self.reqs] if advancing else longer_cpu.read().tolist()
        self.out_cache_loc = alloc_for_decode(self, lengths, longer, longer_cpu, not advancing)
        self.forward_mode, self.advancing, self.lengths = ForwardMode.DECODE, advancing, lengths
        self.input_ids, self.output_ids = self.output_ids, None
        self.lens_cpu, self.lens = longer_cpu, longer
        for req in self.reqs:
            req.kv_committed_len += 1

    def prepare_for_verify(self, num_draft_tokens: int) -> None:
        """Allocate slots for draft tokens (the first is the token sampled last); their ids come with the drafts.

        `seq_lens` stay those before the drafts, as TARGET_VERIFY has them; `commit_lens` sets them after it.
        """
        self.out_cache_loc = alloc_for_verify(self, num_draft_tokens).flatten()
        self.forward_mode = ForwardMode.TARGET_VERIFY
        self.input_ids, self.output_ids = torch.zeros_like(self.out_cache_loc), None

    def commit_lens(self) -> None:
        """After a verification: lengths are what the requests have committed."""
        self._set_lens([req.kv_committed_len for req in self.reqs])

    def prepare_for_idle(self) -> None:
        """No request, no token: what a data-parallel worker without work runs."""
        self._adopt(ScheduleBatch.init_new([], self.tree_cache))

    def mix_with_running(self, running_batch: ScheduleBatch) -> None:
        """Join a prepared decode batch to this prepared extend batch: its requests extend by one token each."""
        self.forward_mode = ForwardMode.MIXED
        self.mixed_from = len(self.reqs)
        self.input_ids = torch.cat((self.input_ids, running_batch.input_ids))
        self.out_cache_loc = torch.cat((self.out_cache_loc, running_batch.out_cache_loc))
        self.prefix_lens += [seq - 1 for seq in running_batch.seq_lens_cpu.tolist()]
        self.extend_lens += [1] * running_batch.batch_size()
        self.extend_num_tokens += running_batch.batch_size()
        self.merge_batch(running_batch)

    def merge_batch(self, other: ScheduleBatch) -> None:
        """Append another batch's requests (not its pass: the next prepare fills that)."""
        self.decoding = None
        self.reqs += other.reqs
        self.req_pool_indices = torch.cat((self.req_pool_indices, other.req_pool_indices))
        self.seq_lens = torch.cat((self.seq_lens, other.seq_lens))
        self.seq_lens_cpu = torch.cat((self.seq_lens_cpu, other.seq_lens_cpu))
        if self.output_ids is not None and other.output_ids is not None:
            self.output_ids = torch.cat((self.output_ids, other.output_ids))

    def filter_batch(self, keep_indices: list[int]) -> None:
        """Keep these requests; the others were finished or retracted (the caller releases what they hold)."""
        if len(keep_indices) == len(self.reqs):
            return
        self.decoding = None
        keep = torch.tensor(keep_indices, dtype=torch.int64)
        self.reqs = [self.reqs[i] for i in keep_indices]
        self.req_pool_indices = self.req_pool_indices[keep.to(self.device)]
        self.seq_lens = self.seq_lens[keep.to(self.device)]
        self.seq_lens_cpu = self.seq_lens_cpu[keep]
        if self.output_ids is not None:
            self.output_ids = self.output_ids[keep.to(self.device)]

    def get_model_worker_batch(self) -> ModelWorkerBatch:
        if self.advancing and self.forward_mode.is_decode():
            return AdvancingBatch(self)
        extend = self.forward_mode.is_extend() and not self.forward_mode.is_target_verify()
        return ModelWorkerBatch(
            forward_mode=self.forward_mode,
            input_ids=self.input_ids,
            req_pool_indices=self.req_pool_indices,
            seq_lens=self.seq_lens,
            out_cache_loc=self.out_cache_loc,
            seq_lens_cpu=self.seq_lens_cpu,
            seq_lens_sum=self.seq_lens_sum,
            extend_num_tokens=self.extend_num_tokens if extend else None,
            extend_seq_lens=list(self.extend_lens) if extend else None,
            extend_prefix_lens=list(self.prefix_lens) if extend else None,
            orig_seq_lens=self.seq_lens.to(torch.int32) if extend else None,
            rids=[req.rid for req in self.reqs],
        )

    def _set_lens(self, seq_lens: list[int]) -> None:
        self.seq_lens_cpu = torch.tensor(seq_lens, dtype=torch.int64)
        self.seq_lens = self.seq_lens_cpu.to(self.device)

    def _adopt(self, draft: ScheduleBatch) -> None:
        vars(self).update(vars(draft))
