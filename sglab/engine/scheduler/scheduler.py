"""Scheduler: which requests run next, and what their results mean. It knows no model.

A step: `get_next_batch_to_run` plans a batch and allocates its slots; whoever drives runs it and hands the tokens to
`process_batch_result`. Prefill comes first; running requests decode only when nothing can be prefilled, or in the same
pass with mixed chunks. With overlap the result of a step is processed after the next one was planned, so the input of
a decode is a placeholder, -1 - row, for "what this row's last pass sampled".
Source: SGLang 0.5.23 `managers/scheduler.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from sglab.engine.batch.allocation import release_kv_cache
from sglab.engine.batch.finish import FinishAbort
from sglab.engine.batch.req import Decode, Req
from sglab.engine.batch.schedule_batch import AdvancingBatch, ScheduleBatch
from sglab.engine.cache.paged_allocator import get_num_new_pages
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.cache.radix_node import TreeNode, path_up
from sglab.engine.errors import BadArgumentError
from sglab.engine.scheduler import admission
from sglab.engine.scheduler.config import SchedulerConfig
from sglab.engine.scheduler.history import Decision, History
from sglab.engine.scheduler.invariants import check_invariants
from sglab.engine.scheduler.new_token_ratio import NewTokenRatioTracker, estimate_new_token_ratio_after_retract
from sglab.engine.scheduler.policy import SchedulePolicy
from sglab.engine.scheduler.prefill_adder import AddReqResult, PrefillAdder, PrefillLimits
from sglab.engine.scheduler.retraction import check_decode_mem, evict_for, retract_decode, retract_one
from sglab.engine.scheduler.scheduled_pass import PassResult, ScheduledPass, apply_result, schedule


@dataclass
class Plan:
    """What a step's planning leaves for its record."""

    policy: str = ""
    decisions: list[Decision] = field(default_factory=list)
    retracted: list[str] = field(default_factory=list)
    evicted: int = 0
    loaded: int = 0
    stopped: str = ""


class Scheduler:
    """Waiting and running requests over one radix cache and its pools.

    Args:
        config: limits and policy.
        tree_cache: the cache, with the allocator and the request pool.
        decode: a tokenizer's, for stop strings; None: requests with stop strings are refused.
        num_draft_tokens: slots that a decode step takes of each request: more than one with speculation, which verifies
            drafts in TARGET_VERIFY instead of decoding; no overlap and no mixed chunks then.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        tree_cache: RadixCache,
        decode: Decode | None = None,
        num_draft_tokens: int = 1,
    ) -> None:
        config.check_page_size(tree_cache.page_size)
        self.config = config
        self.tree_cache = tree_cache
        self.req_to_token_pool = tree_cache.req_to_token_pool
        self.allocator = tree_cache.token_to_kv_pool_allocator
        self.page_size = tree_cache.page_size
        self.decode = decode
        self.num_draft_tokens = num_draft_tokens
        self.policy = SchedulePolicy(config.schedule_policy, tree_cache, config.seed)
        self.new_token_ratio_tracker = NewTokenRatioTracker.from_conservativeness(config.schedule_conservativeness)
        self.waiting_queue: list[Req] = []
        self.running_batch = ScheduleBatch.init_new([], tree_cache)
        self.last_batch: ScheduleBatch | None = None
        self.chunked_req: Req | None = None
        self.history = History()
        self.aborted: dict[str, str] = {}
        """Request -> the kind of its end, of those that ended since the last step was planned: the next one's record
        has them, if there is one."""
        self.advances: Callable[[int], bool] | None = None
        """Whether a decode of so many requests runs in a graph that writes its slots to the requests' rows, and is
        launched before the next pass is planned; None: none does."""
        self._in_flight: list[ScheduledPass] = []
        self._any_to_finish = False
        self._failed: list[Req] = []
        self._unwritten: list[torch.Tensor] = []
        self._plan = Plan()
        self._placeholders = (self.running_batch.req_pool_indices, self.running_batch.input_ids)

    # Requests come and go.

    @property
    def max_req_len(self) -> int:
        """Tokens of the longest request that can run, alone, with its output; a page is spare for its last token."""
        drafts = self.num_draft_tokens - 1
        in_pool = self.allocator.size - self.page_size - 1 - drafts
        return min(self.req_to_token_pool.max_context_len - drafts, in_pool)

    def add_request(self, req: Req) -> None:
        """Append a request to the waiting queue; its max_new_tokens is cut to what context and pool can hold.

        A name that a request had which has ended is numbered in `rid`, so that the history keeps both; `client_rid` is
        the name as it was given.

        Raises:
            BadArgumentError: an empty prompt, one that no pool of this size can hold, a name that is taken, or stop
                strings without a tokenizer. Nothing has changed.
        """
        prompt = len(req.origin_input_ids)
        if not prompt:
            raise BadArgumentError("prompt", "at least one token", "none", "Pass a text or token ids.")
        if prompt >= self.max_req_len:
            context, pool = self.req_to_token_pool.max_context_len, self.allocator.size
            raise BadArgumentError(
                "prompt",
                f"fewer than {self.max_req_len} tokens (context {context}, KV pool of {pool} slots)",
                f"input length {prompt} of request {req.rid!r}",
                "Use a shorter input, or a larger context_length or max_total_tokens.",
            )
        if req.sampling_params.stop and self.decode is None:
            raise BadArgumentError("stop", "no stop strings without a tokenizer", req.sampling_params.stop, "Pass one.")
        if self.unfinished(req.rid) is not None:
            raise BadArgumentError("rid", "a name that no unfinished request has", repr(req.rid), "Choose another.")
        most = self.max_req_len - prompt
        if req.sampling_params.max_new_tokens > most:
            least = min(req.sampling_params.min_new_tokens, most)
            req.sampling_params = replace(req.sampling_params, max_new_tokens=most, min_new_tokens=least)
        req.client_rid = req.rid
        req.rid = self.history.new_name(req.rid)
        self.history.arrivals[req.rid] = len(self.history)
        self.history.prompts[req.rid] = prompt
        self.waiting_queue.append(req)

    def drop(self, req: Req) -> None:
        """Take back a request that has not run."""
        self.waiting_queue.remove(req)
        self.history.forget(req.rid)

    def flush_cache(self) -> None:
        """Forget every cached prefix that no request holds."""
        self.tree_cache.evict(self.allocator.size)

    def abort_request(self, rid: str, message: str = "Aborted by its caller") -> bool:
        """End a request before its next step. Returns whether there is an unfinished one of this name."""
        req = self.unfinished(rid)
        if req is not None:
            req.to_finish = FinishAbort(message)
            self._any_to_finish = True
        return req is not None

    def unfinished(self, rid: str) -> Req | None:
        """The unfinished request of this name, the one that it came with or the history's."""
        return next((req for req in self.requests() if rid in (req.client_rid, req.rid)), None)

    def requests(self) -> list[Req]:
        """Every unfinished request: waiting, in chunks, on its way and running."""
        return [req for req in (*self.waiting_queue, *self.holders()) if not req.finished()]

    def holders(self) -> list[Req]:
        """The requests that hold a row and slots."""
        found = dict.fromkeys(self.running_batch.reqs)
        if self.last_batch is not None and self.last_batch is not self.running_batch:
            found.update(dict.fromkeys(self.last_batch.reqs))
        for scheduled in self._in_flight:
            found.update(dict.fromkeys(scheduled.reqs))
        if self.chunked_req is not None:
            found[self.chunked_req] = None
        found.update(dict.fromkeys(self._failed))  # one that its last pass was to finish is in no batch any more
        return [req for req in found if req.req_pool_idx is not None]

    def has_work(self) -> bool:
        """Whether any request is unfinished or any pass is on its way."""
        return bool(self._in_flight or self.waiting_queue or self.holders())

    def check_invariants(self) -> None:
        """See `invariants.check_invariants`."""
        check_invariants(self.tree_cache, self.holders())

    def process_batch_result(self, scheduled: ScheduledPass, result: PassResult) -> None:
        """Give a pass's tokens to its requests and release what has ended. Passes end in the order of their plans."""
        assert self._in_flight[0] is scheduled
        self._write_rows()
        del self._in_flight[0]
        apply_result(scheduled, result, self.tree_cache, self.decode)
        if self.num_draft_tokens > 1 and self.running_batch.forward_mode.is_target_verify():
            self.running_batch.commit_lens()

    def fail_batch(self, scheduled: ScheduledPass, message: str) -> None:
        """A pass that could not run: its requests end before the next step, the others go on."""
        assert self._in_flight[0] is scheduled
        self._write_rows()
        del self._in_flight[0]
        scheduled.record.failed = message
        for req in scheduled.reqs:
            if not req.finished():
                req.to_finish = FinishAbort(message)
                self._any_to_finish = True
                self._failed.append(req)
        self._unwritten.append(scheduled.worker_batch.out_cache_loc)

    # Planning.

    def get_next_batch_to_run(self) -> ScheduledPass | None:
        """Plan the next pass and allocate what it needs; None: nothing can run now."""
        self._write_rows()
        self._plan = Plan(evicted=-self.tree_cache.evicted_tokens, loaded=-self.tree_cache.loaded_tokens)
        self._finish_aborted()
        if self.chunked_req is not None:
            self.tree_cache.cache_unfinished_req(self.chunked_req)
        self._merge_last_batch()
        self._filter(self.running_batch)
        batch = self._get_new_batch_prefill()
        if batch is None:
            batch = self._update_running_batch()
        self.last_batch = batch
        if batch is None:
            return None
        self._plan.evicted += self.tree_cache.evicted_tokens
        self._plan.loaded += self.tree_cache.loaded_tokens
        scheduled = schedule(self, batch, self._plan)
        scheduled.record.finished.update(self.aborted)
        self.aborted = {}
        self._in_flight.append(scheduled)
        return scheduled

    def _write_rows(self) -> None:
        """Before rows are read: those of passes that were not launched, as they should have been, or have failed."""
        for scheduled in self._in_flight:
            batch = scheduled.worker_batch
            if isinstance(batch, AdvancingBatch) and not batch.rows_written:
                batch.write_rows()

    def _finish_aborted(self) -> None:
        unwritten = self._doomed_nodes()
        if not self._any_to_finish:
            return
        self._any_to_finish = False
        for req in self.requests():
            if req.to_finish is None:
                continue
            req.finished_reason = req.to_finish
            self.aborted[req.rid] = req.finished_reason.kind
            if req in self.waiting_queue:
                self.waiting_queue.remove(req)
            else:
                release_kv_cache(req, self.tree_cache, is_insert=False)
            if req is self.chunked_req:
                self.chunked_req = None
        self._failed = []
        for node in unwritten:
            if node.parent is not None and node in node.parent.children.values():  # or it went with one above it
                self.tree_cache.remove(node)

    def _doomed_nodes(self) -> list[TreeNode]:
        """What the tree has of passes that failed. With overlap it takes a chunk when the next one is planned, and with
        a prefill's result also the token whose pass is on its way. Requests that were admitted behind these end, too.
        """
        if not self._unwritten:
            return []
        nodes = self.tree_cache.nodes_of(torch.cat(self._unwritten))
        self._unwritten = []
        for req in self.requests() if nodes else ():
            if req.to_finish is None and req.holds_lock and any(node in nodes for node in path_up(req.last_node)):
                req.to_finish = FinishAbort("The pass that computed its prefix failed")
        return nodes

    def _merge_last_batch(self) -> None:
        """Requests whose prefill has ended go to the running batch."""
        last, self.last_batch = self.last_batch, None
        if last is None or last is self.running_batch:
            return
        self._filter(last, without=self.chunked_req)
        if self.running_batch.is_empty():
            last.batch_is_full = self.running_batch.batch_is_full
            self.running_batch = last
        elif last.reqs:
            self.running_batch.merge_batch(last)

    def _filter(self, batch: ScheduleBatch, without: Req | None = None) -> None:
        """Let finished requests go."""
        keep = [i for i, req in enumerate(batch.reqs) if req.finished_reason is None and req is not without]
        if len(keep) < len(batch.reqs):
            batch.filter_batch(keep)
            self.running_batch.batch_is_full = False

    def _get_new_batch_prefill(self) -> ScheduleBatch | None:
        running = self.running_batch
        if running.is_empty():
            running.batch_is_full = False
        if (running.batch_is_full or not self.waiting_queue) and self.chunked_req is None:
            self._plan.stopped = admission.STILL_FULL if self.waiting_queue else ""
            return None
        if self._allocatable() <= 0 and self.chunked_req is None:
            running.batch_is_full = True
            self._plan.stopped = self._no_row()
            return None
        self._plan.policy = self.policy.calc_priority(self.waiting_queue)
        adder = self._offer_requests()
        self._plan.decisions = adder.decisions
        if not adder.can_run_list:
            return None
        chosen = set(adder.can_run_list)
        self.waiting_queue = [req for req in self.waiting_queue if req not in chosen]
        if adder.new_chunked_req is not None:
            self.chunked_req = adder.new_chunked_req
        self._make_room_for(adder.can_run_list)
        batch = ScheduleBatch.init_new(adder.can_run_list, self.tree_cache)
        batch.prepare_for_extend()
        if self.config.enable_mixed_chunk:
            self._mix(batch)
        return batch

    def _offer_requests(self) -> PrefillAdder:
        config, running = self.config, self.running_batch
        chunk = None if config.chunked_prefill_size == -1 else config.chunked_prefill_size
        adder = PrefillAdder(
            self.tree_cache,
            running.reqs,
            self.new_token_ratio_tracker.current,
            PrefillLimits(config.max_prefill_tokens, chunk, config.prefill_max_requests),
            len(running.reqs) if config.enable_mixed_chunk else 0,
        )
        held = 0
        if self.chunked_req is not None:
            self.chunked_req.init_next_round_input()
            self.chunked_req = adder.add_chunked_req(self.chunked_req)
            held = 1
        for i, req in enumerate(self.waiting_queue):
            if adder.budget_state() is AddReqResult.OTHER:
                self._plan.stopped = admission.spent(adder.budgets())
                break
            if len(adder.can_run_list) >= self._allocatable(held):
                running.batch_is_full = True
                self._plan.stopped = self._no_row()
            if running.batch_is_full or self.chunked_req is not None or adder.new_chunked_req is not None:
                self._plan.stopped = self._plan.stopped or admission.cut(self.chunked_req or adder.new_chunked_req)
                break
            req.init_next_round_input(self.tree_cache)
            result = adder.add_one_req(req)
            if result is AddReqResult.NO_TOKEN:
                running.batch_is_full = bool(adder.can_run_list) or not running.is_empty()
            if result is not AddReqResult.CONTINUE:
                taken = bool(adder.can_run_list) and adder.can_run_list[-1] is req
                if not taken:
                    self._plan.stopped = admission.refused(adder.decisions[-1])
                elif i + 1 < len(self.waiting_queue):
                    self._plan.stopped = admission.spent(adder.budgets())
                break
        return adder

    def _no_row(self) -> str:
        return admission.no_row(self.config.max_running_requests, self.req_to_token_pool.available_size())

    def _allocatable(self, held_rows: int = 0) -> int:
        """Requests that a prefill may have; `held_rows` of them have a row."""
        rows = self.req_to_token_pool.available_size() + held_rows
        return min(self.config.max_running_requests - len(self.running_batch.reqs), rows)

    def _make_room_for(self, reqs: Sequence[Req]) -> None:
        """A chunk goes on even when nothing was left of its budget: running requests give up their slots for it."""
        prefixes = [len(req.prefix_indices) for req in reqs]
        needed = self.page_size * get_num_new_pages(prefixes, [len(req.fill_ids) for req in reqs], self.page_size)
        running = self.running_batch
        while running.reqs and self.allocator.available_size() + self.tree_cache.evictable_size() < needed:
            self._requeue([retract_one(running)])
        evict_for(self.tree_cache, needed)

    def _mix(self, batch: ScheduleBatch) -> None:
        """Running requests decode in the same pass, if their slots can be had without retracting any."""
        running = self.running_batch
        self._let_finishing_go(running)
        if running.is_empty() or not check_decode_mem(running.reqs, self.tree_cache):
            return
        self._prepare_for_decode(running)
        batch.mix_with_running(running)
        self.running_batch = ScheduleBatch.init_new([], self.tree_cache)
        self.running_batch.batch_is_full = running.batch_is_full

    def _let_finishing_go(self, batch: ScheduleBatch) -> bool:
        """Drop requests that reach their last token in a pass on its way. Returns whether there were any."""
        finishing = {
            entry.req
            for scheduled in self._in_flight
            for entry in scheduled.entries
            if entry.samples and len(entry.req.output_ids) + 1 >= entry.req.sampling_params.max_new_tokens
        }
        keep = [i for i, req in enumerate(batch.reqs) if req not in finishing]
        if len(keep) == len(batch.reqs):
            return False
        batch.filter_batch(keep)
        batch.batch_is_full = False
        return True

    def _update_running_batch(self) -> ScheduleBatch | None:
        """The running batch, ready to decode, after retracting the requests that there is no memory for."""
        batch = self.running_batch
        leaving = self._let_finishing_go(batch)
        if batch.is_empty():
            return None
        if check_decode_mem(batch.reqs, self.tree_cache, self.num_draft_tokens):
            self.new_token_ratio_tracker.decay_step()
        elif leaving:
            return None  # the result on its way frees slots
        else:
            self._requeue(retract_decode(batch, self.num_draft_tokens))
            self.new_token_ratio_tracker.current = estimate_new_token_ratio_after_retract(batch.reqs)
            batch.batch_is_full = False
        self._prepare_for_decode(batch, self.advances is not None and self.advances(len(batch.reqs)))
        return batch

    def _prepare_for_decode(self, batch: ScheduleBatch, advancing: bool = False) -> None:
        if self.num_draft_tokens > 1:
            batch.prepare_for_verify(self.num_draft_tokens)
            return
        if self._placeholders[0] is not batch.req_pool_indices:  # the same tensor as long as the batch stays the same
            self._placeholders = (batch.req_pool_indices, -1 - batch.req_pool_indices)
        batch.output_ids = self._placeholders[1]
        batch.prepare_for_decode(advancing)

    def _requeue(self, reqs: list[Req]) -> None:
        self._plan.retracted += [req.rid for req in reqs]
        self.waiting_queue += reqs
