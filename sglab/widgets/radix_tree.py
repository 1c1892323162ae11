"""RadixTree: a radix cache's operations, one by one: matches, splits, locks and evictions, as they happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import traitlets

from sglab.engine.recording import NodeState, Recording, TreeLog, TreeOp
from sglab.serving import Engine
from sglab.words import plural

from .base import asset
from .engine_lines import LinesWidget, recording_of, spans
from .step_opener import StepOpener

MOST_TEXT = 400
"""Characters of a node's tokens that a page shows."""


class RadixTree(LinesWidget, StepOpener):
    """The radix tree of shared prefixes, operation by operation.

    Attributes:
        tree_log: what is shown.

    Args:
        tree: an `sglab.Engine`, which is recorded and followed from now on, a recording (`engine.record()`), or the log
            of a tree that you drive yourself (`sglab.engine.recording.TreeLog(tree_cache)`).
        decode: a tokenizer's, for tokens as text; of a log alone.
    """

    bundle = "radix_tree"
    format = 1
    _module = asset("radix_tree.js")
    _css = asset("radix_tree.css")

    page_size = traitlets.Int(1).tag(sync=True)
    pool_size = traitlets.Int(0, help="slots of the pool").tag(sync=True)
    steps = traitlets.Int(0, help="of the engine, that have run; 0 for a log alone").tag(sync=True)
    requests: traitlets.List[Any] = traitlets.List(help="the requests' names, in the order of arrival").tag(sync=True)

    def __init__(
        self, tree: Engine | Recording | TreeLog, decode: Callable[[Sequence[int]], str] | None = None
    ) -> None:
        recording = None if isinstance(tree, TreeLog) else recording_of(tree, "RadixTree")
        if recording is not None and decode is not None:
            raise TypeError("decode is of a TreeLog alone: a recording has its engine's tokenizer")
        super().__init__()
        self.recording = recording
        self.tree_log: TreeLog = tree if isinstance(tree, TreeLog) else recording.tree  # type: ignore[union-attr]
        self.opens_steps_of(recording)
        self._decode = decode if recording is None else recording.decode
        self._names: dict[str, int] = {}
        self._sent: dict[int, tuple[int, int, bool]] = {}
        self._show()
        if recording is not None:
            self.follow(recording, RadixTree._stepped)

    def refresh(self) -> None:
        """Shows what has happened since; an engine's own steps are followed by themselves."""
        if len(self.tree_log.ops) > self.count:
            self._show()
        else:
            self.steps = self._steps()

    def after_cell(self) -> None:
        self.refresh()

    def _stepped(self) -> None:
        assert self.recording is not None
        if self.due() or not self.recording.scheduler.has_work():
            self.refresh()

    def _show(self) -> None:
        log = self.tree_log
        for rid in () if self.recording is None else self.recording.reqs:
            self._number(rid)  # as Scheduler numbers them, so that they have its colours
        lines = [self._line(op) for op in log.ops[self.count :]]
        first = log.ops[0]
        size = first.free + first.evictable + first.protected if self.recording is None else self.recording.pool_size
        self.add_lines(
            lines,
            page_size=log.page_size,
            pool_size=size,
            steps=self._steps(),
            requests=list(self._names),
            header=self._header(),
        )

    def _steps(self) -> int:
        return 0 if self.recording is None else len(self.recording.steps)

    def _header(self) -> dict[str, Any]:
        log = self.tree_log
        last = log.ops[-1]
        evicted = sum(len(op.evicted) for op in log.ops)
        off = "the radix cache is off: nothing is kept · " if log.disabled else ""
        subject = (
            f"{off}{plural(len(log.ops) - 1, 'operation')} · pages of {log.page_size} · "
            f"{plural(last.evictable + last.protected, 'token')} cached · {plural(evicted, 'node')} evicted"
        )
        title = "Every operation was recorded from the real radix cache, as it was called."
        return {"title": "Radix tree", "subject": subject, "badge": {"text": "recorded", "title": title}}

    def _line(self, op: TreeOp) -> dict[str, Any]:
        """An operation as the page reads it; empty parts are left out."""
        line = {
            "kind": op.kind,
            "step": op.step,
            "pool": [op.free, op.evictable, op.protected],
            "clock": op.clock,
            "set": [self._state(state) for state in op.changed],
        }
        rest = {
            "rid": -1 if not op.rid else self._number(op.rid),
            "tokens": op.tokens,
            "found": op.found,
            "aligned": op.aligned,
            "path": list(op.path),
            "del": op.removed,
            "evicted": [[each.node, each.tokens, each.last_access, each.reason] for each in op.evicted],
        }
        for node in op.removed:
            self._sent.pop(node, None)
        return {**line, **{name: value for name, value in rest.items() if value not in (0, -1, []) or name == "rid"}}

    def _state(self, state: NodeState) -> dict[str, Any]:
        """A node; its tokens only when they are others than the last time."""
        sent: dict[str, Any] = {
            "id": state.id,
            "parent": state.parent,
            "lock": state.lock_ref,
            "at": state.last_access,
        }
        if state.on_host or not state.on_device:
            sent["where"] = [int(state.on_device), int(state.on_host)]
        seen = (len(state.tokens), state.parent, state.on_device)
        if self._sent.get(state.id) != seen:
            self._sent[state.id] = seen
            text = " ".join(map(str, state.tokens)) if self._decode is None else self._decode(list(state.tokens))
            sent["text"] = text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
            sent["tokens"] = len(state.tokens)
            sent["pages"] = spans(state.pages)
            if state.extra_key is not None:
                sent["space"] = state.extra_key
        return sent

    def _number(self, rid: str) -> int:
        return self._names.setdefault(rid, len(self._names))
