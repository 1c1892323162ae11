"""PrefillAdder: which waiting requests the next prefill batch takes, and how much of each.

Source: SGLang 0.5.23 `managers/schedule_policy.py` and `mem_cache/prefill_budget.py`. Three budgets are spent: KV slots
(free and evictable ones, less what running requests are expected to need), new tokens of a pass (`max_prefill_tokens`)
and the chunk (`chunked_prefill_size`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto

from sglab.engine.batch.req import Req
from sglab.engine.cache.paged_allocator import ceil_div
from sglab.engine.cache.radix_cache import RadixCache
from sglab.engine.scheduler.history import Budgets, Decision
from sglab.words import plural

CLIP_MAX_NEW_TOKENS = 4096
"""Requests that may generate more are expected to generate so many."""
IGNORE_EOS_RESERVE_TOKENS = 1


class AddReqResult(Enum):
    """What became of an offered request."""

    CONTINUE = auto()
    """Taken; more may be offered."""
    NO_TOKEN = auto()
    """No KV slots left."""
    OTHER = auto()
    """Another budget is spent."""


@dataclass
class PrefillLimits:
    """What one pass may take; see SchedulerConfig."""

    max_prefill_tokens: int
    chunked_prefill_size: int | None
    prefill_max_requests: int | None = None


class PrefillAdder:
    """Takes requests until a budget is spent. `can_run_list` is the batch, `new_chunked_req` what was cut.

    Args:
        tree_cache: the radix cache; its allocator's free slots and its own evictable ones are the KV budget.
        running: requests that decode.
        new_token_ratio: how much of what those may still generate is kept free.
        limits: of the pass.
        num_mixed_decode_tokens: running requests that decode in the same pass.
    """

    def __init__(
        self,
        tree_cache: RadixCache,
        running: Sequence[Req],
        new_token_ratio: float,
        limits: PrefillLimits,
        num_mixed_decode_tokens: int = 0,
    ) -> None:
        self.tree_cache = tree_cache
        self.allocator = tree_cache.token_to_kv_pool_allocator
        self.page_size = tree_cache.page_size
        self.running = running
        self.new_token_ratio = new_token_ratio
        self.limits = limits
        chunk = limits.chunked_prefill_size
        self.rem_input_tokens = limits.max_prefill_tokens - num_mixed_decode_tokens
        self.rem_chunk_tokens = None if chunk is None else chunk - num_mixed_decode_tokens
        self.can_run_list: list[Req] = []
        self.new_chunked_req: Req | None = None
        self.decisions: list[Decision] = []
        self._current_offset = float(num_mixed_decode_tokens)
        self._total_offset = num_mixed_decode_tokens + sum(self._expected(req) for req in running)
        self._req_states: list[tuple[float, int]] | None = None
        self._offered = self.budgets()

    @property
    def rem_total_tokens(self) -> float:
        """Slots left when every request has generated what is expected of it."""
        return self._free() - self._total_offset

    @property
    def cur_rem_tokens(self) -> float:
        """Slots left after this pass."""
        return self._free() - self._current_offset

    def budgets(self) -> Budgets:
        """All of them, for a decision's record."""
        return Budgets(
            int(self.rem_total_tokens), int(self.cur_rem_tokens), self.rem_input_tokens, self.rem_chunk_tokens
        )

    def budget_state(self) -> AddReqResult:
        """Whether another request may be offered."""
        if self.rem_total_tokens <= 0 or self.cur_rem_tokens <= 0:
            return AddReqResult.NO_TOKEN
        if self.rem_input_tokens <= 0 or (self.rem_chunk_tokens is not None and self.rem_chunk_tokens <= 0):
            return AddReqResult.OTHER
        return AddReqResult.CONTINUE

    def add_chunked_req(self, req: Req) -> Req | None:
        """Take the next chunk of a request that was cut before: always, or it would never give its slots back.

        Returns:
            The request if even this chunk is not its last, else None.
        """
        assert self.rem_chunk_tokens is not None
        self._offered = self.budgets()
        available = min(self.rem_chunk_tokens, int(self.rem_total_tokens))
        limit = available if available > 0 else max(self.rem_chunk_tokens, 1)
        whole = req.extend_input_len
        truncated = whole > limit
        req.set_extend_input_len(min(whole, limit))
        self.can_run_list.append(req)
        self._spend(req.extend_input_len, 0 if truncated else _clipped(req.sampling_params.max_new_tokens))
        left = f", {whole - req.extend_input_len} left" if truncated else ", the last"
        self._decide(req, AddReqResult.CONTINUE, f"next chunk of {plural(req.extend_input_len, 'token')}{left}")
        return req if truncated else None

    def add_one_req(self, req: Req) -> AddReqResult:
        """Offer a waiting request, whose prefix was looked up (`Req.init_next_round_input`).

        Returns:
            CONTINUE also says that there is budget for another; a request may be taken and the result be another.
        """
        self._offered = self.budgets()
        most = self.limits.prefill_max_requests
        if most is not None and len(self.can_run_list) >= most:
            return self._decide(req, AddReqResult.OTHER, f"prefill_max_requests {most} are in this batch")
        if req.sampling_params.ignore_eos and self.tree_cache.disable:
            return self._add_one_req_ignore_eos(req)
        max_new = _clipped(max(req.sampling_params.max_new_tokens - len(req.output_ids), 0))
        total = req.extend_input_len + max_new + self.page_size
        if total >= self.rem_total_tokens:
            return self._refuse_tokens(req, total)
        with self._lock(req):  # what it shares can no longer be evicted, which makes the rest less
            if total >= self.rem_total_tokens:
                return self._refuse_tokens(req, total)
            if req.host_hit_length:
                self.tree_cache.load_back(req)
            return self._admit(req)

    def _admit(self, req: Req) -> AddReqResult:
        """Take a request for which there are slots: whole, or its first chunk."""
        paged = self._ceil(req.extend_input_len)
        if self.rem_chunk_tokens is None:
            if self.can_run_list and paged >= self.rem_input_tokens:
                reason = f"{plural(paged, 'new token')}, {self.rem_input_tokens} of max_prefill_tokens left"
                return self._decide(req, AddReqResult.OTHER, reason)
            return self._take(req, None)
        if paged <= self.rem_chunk_tokens:
            return self._take(req, None)
        prefix = len(req.prefix_indices)
        end = (prefix + self.rem_chunk_tokens // self.page_size * self.page_size) // self.page_size * self.page_size
        if end <= prefix:
            reason = f"less than a page of {self.page_size} left of the chunk ({self.rem_chunk_tokens})"
            return self._decide(req, AddReqResult.OTHER, reason)
        return self._take(req, end - prefix)

    def _take(self, req: Req, chunk: int | None) -> AddReqResult:
        whole = req.extend_input_len
        self.tree_cache.inc_lock_ref(req.last_node or self.tree_cache.root_node)
        req.holds_lock = True
        req.prefix_found = len(req.prefix_indices)
        if not req.retraction_count:
            req.cached_tokens = req.prefix_found
        self.can_run_list.append(req)
        if chunk is None:
            self._spend(whole, _clipped(req.sampling_params.max_new_tokens))
            what = plural(whole, "new token")
        else:
            req.set_extend_input_len(chunk)
            self.new_chunked_req = req
            self._spend(chunk, 0)
            what = f"first chunk of {chunk} of {plural(whole, 'new token')}"
        cached = f", {len(req.prefix_indices)} cached" if len(req.prefix_indices) else ""
        self.decisions.append(Decision(req.rid, AddReqResult.CONTINUE.name, what + cached, self._offered))
        return self.budget_state()

    def _add_one_req_ignore_eos(self, req: Req) -> AddReqResult:
        """Of requests that never stop early the slots in use are known at every step ahead: they are simulated."""
        paged = self._ceil(req.extend_input_len) + self.page_size
        if paged > min(self.cur_rem_tokens, self.rem_total_tokens):
            return self._refuse_tokens(req, paged)
        if self._req_states is None:
            states = [self._state(each) for each in (req, *self.running, *self.can_run_list)]
            self._req_states = sorted(state for state in states if state[0] > 0)
        else:
            state = self._state(req)
            if state[0] > 0:
                self._req_states.insert(bisect_left(self._req_states, state[0], key=lambda each: each[0]), state)
        free = self.cur_rem_tokens - paged
        alone = not self.running and not self.can_run_list  # it fits alone: add_request saw to it
        for i, (left, occupied) in enumerate([] if alone else self._req_states):
            running = len(self._req_states) - i
            if free - left * running <= IGNORE_EOS_RESERVE_TOKENS * running:
                reason = f"{running} requests that ignore EOS would run out of slots before one of them ends"
                return self._decide(req, AddReqResult.NO_TOKEN, reason)
            free += occupied
        if self.rem_chunk_tokens is None or req.extend_input_len <= self.rem_chunk_tokens:
            return self._take(req, None)
        if self.rem_chunk_tokens <= 0:
            return self._decide(req, AddReqResult.OTHER, "the chunk is full")
        return self._take(req, self.rem_chunk_tokens)

    def _state(self, req: Req) -> tuple[float, int]:
        """Tokens that a request still generates, and those it frees at its end."""
        ratio = 1.0 if req.sampling_params.ignore_eos else self.new_token_ratio
        return req.sampling_params.max_new_tokens * ratio - len(req.output_ids), req.seqlen

    def _expected(self, req: Req) -> float:
        ratio = 1.0 if req.sampling_params.ignore_eos else self.new_token_ratio
        return _clipped(req.sampling_params.max_new_tokens - len(req.output_ids)) * ratio

    def _spend(self, extend: int, max_new_tokens: int) -> None:
        paged = self._ceil(extend)
        now = paged + self.page_size  # a request may end on a page of its own
        self._total_offset += now + max_new_tokens
        self._current_offset += now
        self.rem_input_tokens -= paged
        if self.rem_chunk_tokens is not None:
            self.rem_chunk_tokens -= paged

    def _free(self) -> int:
        return self.allocator.available_size() + self.tree_cache.evictable_size()

    def _ceil(self, tokens: int) -> int:
        return ceil_div(tokens, self.page_size) * self.page_size

    @contextmanager
    def _lock(self, req: Req) -> Iterator[None]:
        node = req.last_node or self.tree_cache.root_node
        self.tree_cache.inc_lock_ref(node)
        try:
            yield
        finally:
            self.tree_cache.dec_lock_ref(node)

    def _refuse_tokens(self, req: Req, needed: int) -> AddReqResult:
        reason = f"{plural(needed, 'slot')} wanted, {int(self.rem_total_tokens)} left"
        return self._decide(req, AddReqResult.NO_TOKEN, reason)

    def _decide(self, req: Req, result: AddReqResult, reason: str) -> AddReqResult:
        self.decisions.append(Decision(req.rid, result.name, reason, self._offered))
        return result


def _clipped(tokens: int) -> int:
    return min(tokens, CLIP_MAX_NEW_TOKENS)
