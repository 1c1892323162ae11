"""Scheduler: a serving engine's requests over its steps, what each batch was made of and why, and its memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import traitlets

from sglab.engine.recording import Recording
from sglab.engine.scheduler import StepRecord
from sglab.serving import Engine
from sglab.words import plural

from .base import asset
from .engine_lines import LinesWidget, facts, recording_of
from .step_opener import StepOpener

PREVIEW = 60
"""Characters of a prompt that a page shows."""
CONTEXT = 8
"""Tokens decoded before those that a step added, so that parts of a character come together."""


class Scheduler(LinesWidget, StepOpener):
    """The steps of an engine: who waited, was prefilled, cut, decoded and retracted, and what decided it.

    Attributes:
        recording: what is shown.

    Args:
        engine: an `sglab.Engine`, which is recorded and followed from now on, or a recording (`engine.record()`); what
            an engine did before is shown without what its steps attended to.
    """

    bundle = "scheduler"
    format = 1
    _module = asset("scheduler.js")
    _css = asset("scheduler.css")

    facts = traitlets.Dict(help="pool, limits and policy of the engine, layers of its model").tag(sync=True)
    requests: traitlets.List[Any] = traitlets.List(help="rid, prompt, arrival, most, text, ended").tag(sync=True)

    def __init__(self, engine: Engine | Recording) -> None:
        recording = recording_of(engine, "Scheduler")
        super().__init__()
        self.recording = recording
        self.opens_steps_of(recording)
        self._index: dict[str, int] = {}
        self._generated: dict[str, int] = {}
        self._show()
        self.follow(recording, Scheduler._stepped)

    def refresh(self) -> None:
        """Shows what has run since; an engine's own steps are followed by themselves."""
        if len(self.recording.steps) > self.count or len(self.recording.reqs) > len(self.requests):
            self._show()

    def after_cell(self) -> None:
        self.refresh()

    def _stepped(self) -> None:
        if self.due() or not self.recording.scheduler.has_work():
            self._show()

    def _show(self) -> None:
        recording = self.recording
        lines = [self._line(record, at) for at, record in enumerate(recording.steps[self.count :], self.count)]
        requests = [
            {
                "rid": req.rid,
                "prompt": len(req.prompt),
                "arrival": req.arrival,
                "most": req.max_new_tokens,
                "text": self._preview(req.prompt),
                "ended": recording.scheduler.aborted.get(req.rid, ""),
            }
            for req in recording.reqs.values()
        ]
        self.add_lines(lines, facts=facts(recording), requests=requests, header=self._header())

    def _preview(self, prompt: Sequence[int]) -> str:
        """How a prompt begins. Only here it is known whether that is all: a page has no tokens to count."""
        text = self.recording.text(prompt[:PREVIEW])
        return text if len(prompt) <= PREVIEW and len(text) <= PREVIEW else f"{text[:PREVIEW]}…"

    def _header(self) -> dict[str, Any]:
        recording = self.recording
        pool = f"{recording.pool_size:,} KV slots in pages of {recording.page_size}"
        subject = (
            f"{plural(len(recording.reqs), 'request')} · {plural(len(recording.steps), 'step')} · {pool} · "
            f"{facts(recording)['policy']}"
        )
        machine = str(getattr(recording.model, "device", "")) or "no model"
        title = f"Every step was recorded while the engine ran ({machine})."
        return {"title": "Scheduler", "subject": subject, "badge": {"text": f"recorded · {machine}", "title": title}}

    def _line(self, record: StepRecord, at: int) -> dict[str, Any]:
        """A step as the page reads it: requests by number, empty parts left out."""
        number, pool = self._number, record.pool
        line: dict[str, Any] = {
            "mode": record.mode,
            "batch": [[number(e.rid), e.phase, e.start, e.new_tokens, e.cached_tokens] for e in record.batch],
            "pool": [pool.free, pool.evictable, pool.protected, pool.private, pool.host],
            "ratio": round(record.new_token_ratio, 4),
            "waiting": [number(rid) for rid in record.waiting],
            "paused": [number(rid) for rid in record.running],
            "out": list(self._outputs(record)),
        }
        rest = {
            "why": [
                [number(d.rid), d.result, d.reason]
                + ([d.left.rem_total, d.left.cur_rem, d.left.rem_input, d.left.rem_chunk] if d.left else [])
                for d in record.decisions
            ],
            "stopped": record.stopped,
            "failed": record.failed,
            "policy": record.policy,
            "retracted": [number(rid) for rid in record.retracted],
            "finished": [[number(rid), kind] for rid, kind in record.finished.items()],
            "evicted": record.evicted_tokens,
            "loaded": record.loaded_tokens,
            "drafts": [record.accepted, record.drafted] if record.drafted else [],
            "graph": record.graph_bs or 0,
            "opens": int(at in self.recording.pools and record.mode != "TARGET_VERIFY"),
        }
        return {**line, **{name: value for name, value in rest.items() if value}}

    def _outputs(self, record: StepRecord) -> Iterator[list[Any]]:
        """Of each request that generated something: its number, how many tokens, and their text."""
        recording = self.recording
        for rid, tokens in record.tokens.items():
            done = self._generated.get(rid, 0)
            self._generated[rid] = done + len(tokens)
            before = recording.req(rid).output[max(done - CONTEXT, 0) : done]
            text = recording.text([*before, *tokens])[len(recording.text(before)) :]
            yield [self._number(rid), len(tokens), text]

    def _number(self, rid: str) -> int:
        if rid not in self._index:
            self._index = {each: i for i, each in enumerate(self.recording.reqs)}
        return self._index.setdefault(rid, len(self._index))
