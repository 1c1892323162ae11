"""Graph: captured decode passes: their order, what a replay pads, and the addresses that stay."""

from __future__ import annotations

from typing import Any

import traitlets

from sglab.engine.graphs import RecordedGraph
from sglab.serving import Engine
from sglab.serving.graph_log import GraphLog, RecordedReplay, address_names, probe_stale_pointer
from sglab.serving.graph_runner import WARM_UPS
from sglab.words import plural

from .base import asset
from .engine_lines import LinesWidget
from .step_opener import StepOpener

MOST_LAUNCHES = 3000
"""Of one graph, those that a page lists."""


class Graph(LinesWidget, StepOpener):
    """A CUDA-graph runner: captures from the largest size down, then replays, each with its inputs and its padding.

    Attributes:
        graphs: what is shown (`sglab.serving.GraphLog`).

    Args:
        engine: an `sglab.Engine` with captured graphs (cuda_graph=True), whose replays are recorded and followed from
            now on, as what its steps attend to is; or a log of one: its steps can be opened if the engine is recorded.
    """

    bundle = "graph"
    format = 1
    _module = asset("graph.js")
    _css = asset("graph.css")

    sizes: traitlets.List[Any] = traitlets.List(help="captured sizes, ascending").tag(sync=True)
    launches: traitlets.List[Any] = traitlets.List(help="of each capture, in order: name, reads, writes").tag(sync=True)
    addresses: traitlets.List[Any] = traitlets.List(help="address in hex, name, by number").tag(sync=True)
    probe = traitlets.Dict(help="what a stale pointer does; empty: it was not tried").tag(sync=True)
    without = traitlets.Dict(help="why passes ran without a graph -> how many").tag(sync=True)

    def __init__(self, engine: Engine | GraphLog) -> None:
        if not isinstance(engine, Engine | GraphLog):
            raise TypeError(
                f"Graph shows an sglab.Engine(…, cuda_graph=True) or its GraphLog; got {type(engine).__name__}"
            )
        log = GraphLog(engine) if isinstance(engine, Engine) else engine
        super().__init__()
        self.graphs = log
        self.opens_steps_of(engine.record() if isinstance(engine, Engine) else log.engine.recording)
        self._rids: dict[str, int] = {}
        numbers: dict[int, int] = {}
        launches = [
            [
                [
                    launch.name,
                    [_number(numbers, each) for each in launch.reads],
                    [_number(numbers, each) for each in launch.writes],
                ]
                for launch in captured.graph.launches[:MOST_LAUNCHES]
            ]
            if isinstance(captured.graph, RecordedGraph)
            else []
            for captured in log.runner.captured.values()
        ]
        names = address_names(log.runner)
        static = {
            "sizes": list(log.runner.capture_bs),
            "launches": launches,
            "addresses": [[f"0x{each:x}", names.get(each, "")] for each in numbers],
            "probe": self._probe(),
        }
        captures = [
            {"kind": "capture", "bs": bs, "warm_ups": WARM_UPS, "launches": len(each)}
            for (bs, _), each in zip(log.runner.captured.items(), launches, strict=True)
        ]
        self._shown = 0
        self._show(captures, **static)
        self.follow(log, Graph._replayed)

    def refresh(self) -> None:
        """Shows what was replayed since; an engine's own steps are followed by themselves."""
        if len(self.graphs.replays) > self._shown or self.graphs.without_graph() != self.without:
            self._show([])

    def after_cell(self) -> None:
        self.refresh()

    def _replayed(self) -> None:
        if self.due():
            self.refresh()

    def _probe(self) -> dict[str, Any]:
        """Tried only where nothing is on its way."""
        log = self.graphs
        graph = next(iter(log.runner.captured.values())).graph
        if log.engine.scheduler.has_work() or not isinstance(graph, RecordedGraph):
            return {}
        tried = probe_stale_pointer(log.runner)
        return {
            "name": tried.name,
            "recorded": f"0x{tried.recorded_address:x}",
            "fresh": f"0x{tried.new_address:x}",
            "message": tried.message,
            "unseen": tried.unseen,
            "seen": tried.seen,
        }

    def _show(self, captures: list[dict[str, Any]], **traits: Any) -> None:
        replays = self.graphs.replays
        lines = [self._line(replay) for replay in replays[self._shown :]]
        self._shown = len(replays)
        self.add_lines([*captures, *lines], without=self.graphs.without_graph(), header=self._header(), **traits)

    def _line(self, replay: RecordedReplay) -> dict[str, Any]:
        rids = [self._request(rid) for rid in replay.rids]
        line = {"kind": "replay", "raw": replay.raw_bs, "bs": replay.bs, "step": replay.step}
        return {
            **line,
            "requests": [[number, rid] for number, rid in zip(rids, replay.rids, strict=True)],
            "inputs": replay.inputs,
        }

    def _request(self, rid: str) -> int:
        """Its number, as all widgets of the recording have it: some requests end before they decode."""
        recording = self.opened_recording
        if rid not in self._rids and recording is not None:
            self._rids = {each: i for i, each in enumerate(recording.reqs)}
        return self._rids.setdefault(rid, len(self._rids))

    def _header(self) -> dict[str, Any]:
        runner = self.graphs.runner
        sizes = ", ".join(map(str, runner.capture_bs))
        padded = sum(replay.bs - replay.raw_bs for replay in self.graphs.replays)
        subject = f"sizes {sizes} · {plural(len(self.graphs.replays), 'replay')} · {plural(padded, 'padded slot')}"
        if runner.device.type == "cuda":
            badge = {"text": "CUDA graphs", "title": "Captured and replayed by the GPU; its launches are not listed."}
        else:
            title = "PyTorch's operations were recorded with their tensors, and run again on the same addresses."
            badge = {"text": "recorded launches · cpu", "title": title}
        return {"title": "Graph", "subject": subject, "badge": badge}


def _number(numbers: dict[int, int], address: int) -> int:
    return numbers.setdefault(address, len(numbers))
