"""What the scheduler did, step by step, as plain data: to be drawn, searched and saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import count
from typing import Any, overload


@dataclass(frozen=True)
class Budgets:
    """What a prefill batch may still take; see PrefillAdder."""

    rem_total: int
    """KV slots, free or evictable, less what running and taken requests are expected to need."""
    cur_rem: int
    """KV slots after this pass alone."""
    rem_input: int
    """Of max_prefill_tokens."""
    rem_chunk: int | None
    """Of chunked_prefill_size; None: prompts are never cut."""


@dataclass(frozen=True)
class Decision:
    """What became of a request that was offered to a prefill batch, and why."""

    rid: str
    result: str
    """A name of AddReqResult; "CONTINUE" is taken."""
    reason: str
    left: Budgets | None = None
    """The budgets when it was offered."""


@dataclass(slots=True)  # frozen ones take three times as long to make, and a prefill makes one per request
class BatchEntry:
    """One request's share of a step."""

    rid: str
    phase: str
    """"prefill", "chunk" (a prefill that this step does not end), "decode" or "verify" (of drafts)."""
    start: int
    """Tokens in the pool before the step."""
    new_tokens: int
    cached_tokens: int = 0
    """Prefills: of `start`, those that the radix tree had when the request was admitted."""


class DecodeEntries(Sequence[BatchEntry]):
    """The entries of a step that decodes or verifies, made when they are read: of 100,000 steps most are never read."""

    __slots__ = ("_ends", "_new_tokens", "_phase", "_rids")

    def __init__(self, rids: list[str], phase: str, ends: list[int], new_tokens: int) -> None:
        """Lists that nobody changes. ends: tokens in the pool with the new one of a decode, without a verification's
        drafts."""
        self._rids, self._phase, self._ends, self._new_tokens = rids, phase, ends, new_tokens

    def __len__(self) -> int:
        return len(self._rids)

    @overload
    def __getitem__(self, index: int) -> BatchEntry: ...

    @overload
    def __getitem__(self, index: slice) -> list[BatchEntry]: ...

    def __getitem__(self, index: int | slice) -> BatchEntry | list[BatchEntry]:
        if isinstance(index, slice):
            return list(self)[index]
        start = self._ends[index] - (self._phase == "decode")
        return BatchEntry(self._rids[index], self._phase, start, self._new_tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return repr(list(self))


@dataclass(slots=True)  # a step makes one: see BatchEntry
class PoolUse:
    """Slots of the KV pool after planning; free + evictable + protected + private == size."""

    size: int
    free: int
    evictable: int
    """In the radix tree, used by no running request."""
    protected: int
    """In the radix tree, locked."""
    private: int
    """Of running requests, outside the tree (whole pages)."""
    page_size: int
    host: int = 0
    """Hierarchical cache: slots of the host's pool in use."""


@dataclass
class StepRecord:
    """One step: its batch, why it is so, and what came of it."""

    step: int
    mode: str
    """ForwardMode's name; "IDLE": nothing could run."""
    batch: Sequence[BatchEntry]
    decisions: list[Decision]
    """Of the requests that were offered to a prefill, in order."""
    policy: str
    """The policy that sorted the queue; empty where none was needed."""
    waiting: list[str]
    running: list[str]
    pool: PoolUse
    new_token_ratio: float
    retracted: list[str] = field(default_factory=list)
    evicted_tokens: int = 0
    loaded_tokens: int = 0
    """Hierarchical cache: tokens that came back from the host."""
    tokens: dict[str, list[int]] = field(default_factory=dict)
    """What the step generated, filled in when its result was processed."""
    finished: dict[str, str] = field(default_factory=dict)
    """Request -> the kind of its end, filled in likewise; also of those that were aborted before the step."""
    drafted: int = 0
    """Speculation: drafts that were verified, and how many of them were accepted."""
    accepted: int = 0
    graph_bs: int | None = None
    """The size of the captured graph that was replayed; None: the pass ran without one."""
    stopped: str = ""
    """Why no more waiting requests were offered to a prefill; empty where none was left."""
    failed: str = ""
    """Why the pass could not run, which ends its requests before the next step; empty: it ran."""

    def as_dict(self) -> dict[str, Any]:
        """Plain lists, dictionaries, numbers and strings."""
        return asdict(replace(self, batch=list(self.batch)))


class History:
    """The steps of an engine, and when each request came and went."""

    def __init__(self, limit: int = 100_000) -> None:
        self.limit = limit
        self.steps: list[StepRecord] = []
        self.arrivals: dict[str, int] = {}
        """Request -> the number of steps that had been planned when it came."""
        self.prompts: dict[str, int] = {}
        """Request -> tokens of its prompt."""

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, record: StepRecord) -> None:
        """Append a step; beyond the limit the oldest tenth is dropped, and with it the requests that ended there."""
        if len(self.steps) >= self.limit:
            oldest = max(self.limit // 10, 1)
            for rid in {rid for step in self.steps[:oldest] for rid in step.finished}:
                self.arrivals.pop(rid, None)
                self.prompts.pop(rid, None)
            del self.steps[:oldest]
        self.steps.append(record)

    def new_name(self, rid: str) -> str:
        """`rid`, numbered if there was a request of this name: "x", "x #2", "x #3"."""
        if rid not in self.arrivals:
            return rid
        return next(name for number in count(2) if (name := f"{rid} #{number}") not in self.arrivals)

    def forget(self, rid: str) -> None:
        """A request that never ran."""
        del self.arrivals[rid], self.prompts[rid]

    def of(self, rid: str) -> list[StepRecord]:
        """The steps in which a request ran, was considered, was retracted or ended."""
        return [
            step
            for step in self.steps
            if rid in step.retracted
            or rid in step.finished
            or any(entry.rid == rid for entry in step.batch)
            or any(decision.rid == rid for decision in step.decisions)
        ]

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {"steps": [step.as_dict() for step in self.steps], "arrivals": self.arrivals, "prompts": self.prompts}
