"""Recording: the steps of one scheduler with what each pass read, and the operations on its radix tree."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sglab.engine.batch.req import Req
from sglab.engine.errors import BadArgumentError
from sglab.engine.recording.tree_log import TreeLog
from sglab.engine.recording.wrapping import Wrapped
from sglab.engine.scheduler.history import StepRecord
from sglab.engine.scheduler.scheduled_pass import PassResult, ScheduledPass
from sglab.engine.scheduler.scheduler import Scheduler
from sglab.words import plural

Slots = npt.NDArray[np.int32]
Changed = Callable[[], None]


@dataclass(frozen=True)
class RecordedReq:
    """A request as the recording knows it; its output grows while it runs."""

    rid: str
    prompt: list[int]
    output: list[int]
    arrival: int
    """Steps that had been planned when it came."""
    max_new_tokens: int
    extra_key: str | None = None


@dataclass(frozen=True)
class Held:
    """What a request held of the pools in a pass."""

    rid: str
    row: int
    """Of ReqToTokenPool."""
    slots: Slots
    """[tokens], of the tokens whose KV the pass reads or writes."""
    in_batch: bool


@dataclass(frozen=True)
class StepPools:
    """The pools as a pass found them."""

    held: list[Held]
    tree_ops: int
    """Operations on the tree until then: `recording.tree.nodes_at(tree_ops)` is the tree."""


@dataclass
class Recording:
    """Records from when it is made until `stop`; steps that ran before are known as the scheduler's history has them.

    Attributes:
        steps: those whose results were processed, in order.
        pools: what each pass found, by position in `steps`; steps from before the recording have none.
        reqs: by name, in the order of arrival.
        tree: the operations on the radix tree.
        decode: a tokenizer's, to show tokens as text; None: they are numbers.
    """

    scheduler: Scheduler
    decode: Callable[[Sequence[int]], str] | None = None
    model: Any = None
    """The model that ran, for `sglab.step_batch`."""
    steps: list[StepRecord] = field(default_factory=list)
    pools: dict[int, StepPools] = field(default_factory=dict)
    reqs: dict[str, RecordedReq] = field(default_factory=dict)
    recording: bool = True

    def __post_init__(self) -> None:
        scheduler = self.scheduler
        if not isinstance(scheduler, Scheduler):
            remedy = "Record an engine with tp_size=1; engine.history has the steps of any."
            raise BadArgumentError("engine", "one scheduler", type(scheduler).__name__, remedy)
        self.page_size, self.pool_size = scheduler.page_size, scheduler.allocator.size
        self.steps += scheduler.history.steps[: len(scheduler.history) - len(scheduler._in_flight)]
        self._planned = len(scheduler.history)
        for rid, arrival in scheduler.history.arrivals.items():
            prompt = [-1] * scheduler.history.prompts[rid]
            self.reqs[rid] = RecordedReq(rid, prompt, [], arrival, 0)
        for req in scheduler.requests():
            self._meet(req, scheduler.history.arrivals.get(req.rid, self._planned))
        self._listeners: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()
        self.tree = TreeLog(scheduler.tree_cache, lambda: self._planned)
        self._wrapped = Wrapped(scheduler)
        self._wrapped.watch("add_request", self._on_add)
        self._wrapped.watch("get_next_batch_to_run", self._on_plan)
        self._wrapped.watch("process_batch_result", self._on_result)
        self._wrapped.watch("fail_batch", self._on_failure)
        self._advances, scheduler.advances = scheduler.advances, None  # rows are read when a pass is planned

    def stop(self) -> None:
        """Stop recording; what was recorded stays, and the scheduler is as if it had never been watched."""
        if self.recording:
            self._wrapped.undo()
            self.scheduler.advances = self._advances
            self.tree.stop()
            self.recording = False

    def described(self) -> tuple[str, str]:
        """What it is and how much, for a list."""
        state = "" if self.recording else ", stopped"
        return "Steps of a scheduler", f"{plural(len(self.steps), 'step')}, {plural(len(self.reqs), 'request')}{state}"

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def follow(self, follower: Any, changed: Callable[[Any], None]) -> None:
        """Call `changed(follower)` after every step, and when requests have ended without one, as long as the follower
        lives."""
        self._listeners[follower] = changed

    def unfollow(self, follower: Any) -> None:
        """Call it no more."""
        self._listeners.pop(follower, None)

    def tokens(self, rid: str) -> list[int]:
        """A request's prompt and what it has generated.

        Raises:
            BadArgumentError: no such request.
        """
        req = self.req(rid)
        return req.prompt + req.output

    def req(self, rid: str) -> RecordedReq:
        """A request by its name.

        Raises:
            BadArgumentError: there is none.
        """
        if rid not in self.reqs:
            some = ", ".join(list(self.reqs)[:5])
            raise BadArgumentError("rid", "a recorded request", repr(rid), f"There are {some or 'none yet'}.")
        return self.reqs[rid]

    def text(self, tokens: Sequence[int]) -> str:
        """Tokens as text; as numbers where there is no tokenizer."""
        known = [token for token in tokens if token >= 0]
        if not known:
            return ""
        return " ".join(map(str, known)) if self.decode is None else self.decode(known)

    def __repr__(self) -> str:
        state = "running" if self.recording else "stopped"
        ran = f"{plural(len(self.reqs), 'request')}, {plural(len(self.steps), 'step')}"
        return f"Recording({ran}, {plural(len(self.tree.ops), 'tree operation')}, {state})"

    # What is watched.

    def _on_add(self, run: Callable[..., None], req: Req) -> None:
        run(req)
        self._meet(req, len(self.scheduler.history))

    def _meet(self, req: Req, arrival: int) -> None:
        most = req.sampling_params.max_new_tokens
        self.reqs[req.rid] = RecordedReq(req.rid, req.origin_input_ids, req.output_ids, arrival, most, req.extra_key)

    def _on_plan(self, run: Callable[[], ScheduledPass | None]) -> ScheduledPass | None:
        ended = len(self.scheduler.aborted)
        scheduled = run()
        if scheduled is not None:
            self.pools[self._planned] = self._pools(scheduled)
            self._planned += 1
        elif len(self.scheduler.aborted) > ended:
            self._tell()  # no step follows that would record these ends
        return scheduled

    def _on_result(self, run: Callable[..., None], scheduled: ScheduledPass, result: PassResult) -> None:
        run(scheduled, result)
        self._done(scheduled)

    def _on_failure(self, run: Callable[..., None], scheduled: ScheduledPass, message: str) -> None:
        run(scheduled, message)
        self._done(scheduled)

    def _done(self, scheduled: ScheduledPass) -> None:
        self.steps.append(scheduled.record)
        self._tell()

    def _tell(self) -> None:
        for follower, changed in list(self._listeners.items()):
            changed(follower)

    def _pools(self, scheduled: ScheduledPass) -> StepPools:
        table = self.scheduler.req_to_token_pool.req_to_token
        batch = scheduled.worker_batch
        held = []
        for req, length in zip(scheduled.reqs, batch.seq_lens_cpu.tolist(), strict=True):
            if req.req_pool_idx is not None:
                held.append(Held(req.rid, req.req_pool_idx, _row(table, req.req_pool_idx, length), True))
        named = set(scheduled.reqs)
        for req in self.scheduler.holders():
            if req not in named and req.req_pool_idx is not None:
                length = max(req.kv_committed_len, req.kv_allocated_len)
                held.append(Held(req.rid, req.req_pool_idx, _row(table, req.req_pool_idx, length), False))
        return StepPools(held, len(self.tree.ops))


def _row(table: Any, row: int, length: int) -> Slots:
    return np.array(table[row, :length].cpu().numpy(), dtype=np.int32)
