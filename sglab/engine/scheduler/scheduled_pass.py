"""ScheduledPass: a planned pass as it was when it was planned; and what its result does to its requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from sglab.engine.batch.allocation import release_drafts, release_kv_cache
from sglab.engine.batch.encoders import with_encoders
from sglab.engine.batch.req import Decode, Req
from sglab.engine.batch.schedule_batch import ModelWorkerBatch, ScheduleBatch
from sglab.engine.batch.token_logprob import TokenLogprob
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.scheduler.history import BatchEntry, Decision, DecodeEntries, History, StepRecord
from sglab.engine.scheduler.invariants import pool_use
from sglab.engine.scheduler.new_token_ratio import NewTokenRatioTracker


class ScheduledReq(NamedTuple):
    """A request in a pass on its way."""

    req: Req
    samples: bool
    """Whether the pass ends in a token of the request: a chunk that is not its prefill's last does not."""
    decodes: bool
    retraction_count: int
    """The request's when the pass was planned; a request that was retracted since takes no token from it."""


@dataclass(frozen=True)
class ScheduledPass:
    """A planned pass. The batch that it was made from goes on changing; this does not."""

    worker_batch: ModelWorkerBatch
    entries: tuple[ScheduledReq, ...]
    record: StepRecord
    reqs: list[Req]
    """Of `entries`; not to be changed, for other passes share it."""
    samples: bool
    """Whether any entry does."""


class Decoding(NamedTuple):
    """What all decodes of a batch have in common as long as its requests stay the same."""

    reqs: list[Req]
    entries: tuple[ScheduledReq, ...]
    rids: list[str]
    encoder_lens: list[int] | None

    @classmethod
    def of(cls, batch: ScheduleBatch) -> Decoding:
        """Kept with the batch, which drops it when requests come or go."""
        if batch.decoding is None:
            entries = tuple(ScheduledReq(req, True, True, req.retraction_count) for req in batch.reqs)
            lens = [req.encoder_len for req in batch.reqs]
            batch.decoding = cls(
                list(batch.reqs), entries, [req.rid for req in batch.reqs], lens if any(lens) else None
            )
        return batch.decoding


@dataclass
class PassResult:
    """What a pass generated, on the host. A row per request of the pass, in its order."""

    next_token_ids: list[list[int]]
    """One token per request, or as many as a verification accepted; of a row that does not sample nothing counts."""
    logprobs: list[list[float]] | None = None
    """Natural log probabilities of these tokens, if any request asked for them."""
    top_logprobs: list[list[list[tuple[int, float]]]] | None = None
    """Per token (token, log probability), the likeliest first."""
    token_ids_logprobs: list[list[list[float]]] | None = None
    """Per token those of the request's `token_ids_logprob`; more may follow."""
    input_logprobs: Mapping[int, tuple[int, list[TokenLogprob]]] = field(default_factory=dict)
    """By row: where in its prompt the first of these tokens lies, and what is known of them."""
    graph_bs: int | None = None
    """The captured graph that was replayed."""
    drafted: int = 0
    """Of a verification: drafts per request, without the root."""


class Planned(Protocol):
    """What is read of a plan."""

    policy: str
    decisions: list[Decision]
    retracted: list[str]
    evicted: int
    loaded: int
    stopped: str


class Planner(Protocol):
    """What is read of a scheduler."""

    tree_cache: RadixCache
    chunked_req: Req | None
    waiting_queue: list[Req]
    history: History
    new_token_ratio_tracker: NewTokenRatioTracker

    def holders(self) -> list[Req]: ...


def schedule(scheduler: Planner, batch: ScheduleBatch, plan: Planned) -> ScheduledPass:
    """Take a prepared batch's picture and write its record."""
    verify, chunked, samples = batch.forward_mode.is_target_verify(), scheduler.chunked_req, True
    reqs = batch.reqs
    entries: Sequence[ScheduledReq]
    shares: Sequence[BatchEntry]
    if verify or not batch.forward_mode.is_extend():
        reqs, entries, rids, encoder_lens = Decoding.of(batch)
        ends = batch.lengths if batch.advancing and not verify else [req.kv_committed_len for req in reqs]
        new_of_each = batch.out_cache_loc.shape[0] // max(len(reqs), 1) if verify else 1
        shares = DecodeEntries(rids, "verify" if verify else "decode", ends, new_of_each)
    else:
        reqs, encoder_lens = list(reqs), [req.encoder_len for req in reqs]
        first_decode = batch.mixed_from if batch.mixed_from is not None else len(reqs)
        entries = [
            ScheduledReq(req, req is not chunked, i >= first_decode, req.retraction_count) for i, req in enumerate(reqs)
        ]
        shares = [
            BatchEntry(
                entry.req.rid,
                "decode" if entry.decodes else "prefill" if entry.samples else "chunk",
                start,
                new_tokens,
                0 if entry.decodes else entry.req.prefix_found,
            )
            for entry, start, new_tokens in zip(entries, batch.prefix_lens, batch.extend_lens, strict=True)
        ]
        samples = any(entry.samples for entry in entries)
    holders, others = scheduler.holders(), []
    if holders != reqs:
        held, named = set(holders), set(reqs)
        others = [req.rid for req in holders if req not in named]
        holders += [req for req in reqs if req not in held]
    record = StepRecord(
        step=len(scheduler.history),
        mode=batch.forward_mode.name,
        batch=shares,
        decisions=plan.decisions,
        policy=plan.policy,
        waiting=[req.rid for req in scheduler.waiting_queue],
        running=others,
        pool=pool_use(scheduler.tree_cache, holders),
        new_token_ratio=scheduler.new_token_ratio_tracker.current,
        retracted=plan.retracted,
        evicted_tokens=plan.evicted,
        loaded_tokens=plan.loaded,
        stopped=plan.stopped,
    )
    scheduler.history.add(record)
    worker_batch = batch.get_model_worker_batch()
    if encoder_lens is not None and any(encoder_lens):
        worker_batch = with_encoders(worker_batch, encoder_lens)
    return ScheduledPass(worker_batch, tuple(entries), record, reqs, samples)


def apply_result(scheduled: ScheduledPass, result: PassResult, tree_cache: RadixCache, decode: Decode | None) -> None:
    """Append the tokens, end what has ended, and hand pages to the tree."""
    scheduled.record.graph_bs = result.graph_bs
    allocator = tree_cache.token_to_kv_pool_allocator
    allocator.free_group_begin()  # what a pass's requests give back is looked at once
    try:
        _apply(scheduled, result, tree_cache, decode)
    finally:
        allocator.free_group_end()


def _apply(scheduled: ScheduledPass, result: PassResult, tree_cache: RadixCache, decode: Decode | None) -> None:
    record = scheduled.record
    scored = result.input_logprobs
    for i, (entry, tokens) in enumerate(zip(scheduled.entries, result.next_token_ids, strict=True)):
        req, samples, decodes, retraction_count = entry
        if scored and i in scored and not req.finished():  # of any chunk, and also if it was retracted since
            req.add_input_logprobs(*scored[i])
        if not samples or req.finished_reason is not None or retraction_count != req.retraction_count:
            continue
        if req.kv_allocated_len:  # the root and the accepted drafts have KV; the last of the tokens has none yet
            req.kv_committed_len += len(tokens)
            record.drafted += result.drafted
            record.accepted += len(tokens) - 1
        req.output_ids += tokens
        if req.return_logprob and result.logprobs is not None:
            _add_logprobs(req, i, result)
        req.update_finish_state(decode, len(tokens))
        record.tokens[req.rid] = tokens
        if req.finished_reason is not None:
            record.finished[req.rid] = req.finished_reason.kind
            req.kv_committed_len = min(req.kv_committed_len, req.seqlen)  # drafts after the end were dropped
            release_kv_cache(req, tree_cache)
        elif not decodes:
            tree_cache.cache_unfinished_req(req)
        elif req.kv_allocated_len:
            release_drafts(req, tree_cache)


def _add_logprobs(req: Req, row: int, result: PassResult) -> None:
    assert result.logprobs is not None
    req.output_logprobs += result.logprobs[row]
    if result.top_logprobs is not None:
        req.output_top_logprobs += [top[: req.top_logprobs_num] for top in result.top_logprobs[row]]
    if result.token_ids_logprobs is not None and req.token_ids_logprob:
        ids = req.token_ids_logprob
        req.output_token_ids_logprobs += [
            list(zip(ids, values, strict=False)) for values in result.token_ids_logprobs[row]
        ]
