"""What a notebook has that a widget can open: batches, launches, sessions, recordings, engines and their runs, layouts,
points of a roofline.

Nothing is registered and nothing is kept alive: each listing looks at the notebook's variables and at what its widgets
show. The numbers by which the page names things are held weakly.
"""

from __future__ import annotations

import itertools
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from sglab.emulator.captures import Capture, CapturedLaunch
from sglab.emulator.session import Session
from sglab.events.cluster.columns import readable
from sglab.events.log import EventLog
from sglab.gpu.geometry import Geometry
from sglab.words import plural

OF_A_BATCH = ("PageTable", "SplitKV", "OnlineSoftmax")
OF_ANY_BATCH = ("PageTable", "SplitKV", "BackendExplorer")
OF_A_LAUNCH = ("KernelDebugger", "WarpRoles", "Barriers", "SharedMemory", "TensorMemory", "NanSpread", "Roofline")
OF_AN_ENGINE = ("Scheduler", "RadixTree", "Graph")
OF_A_RECORDING = ("WarpRoles", "Barriers", "TensorMemory", "Roofline")
OF_A_LAYOUT = ("Layout",)
OF_POINTS = ("Roofline",)
OF_A_RUN = {
    "Recording": ("sglab.engine.recording.recording", ("Scheduler", "RadixTree")),
    "GraphLog": ("sglab.serving.graph_log", ("Graph",)),
    "SpeculationRun": ("sglab.workbench.recorders.speculation", ("DraftTree",)),
    "RoutingRun": ("sglab.workbench.recorders.experts", ("Experts",)),
    "AttentionRun": ("sglab.workbench.recorders.attention", ("SparseAttention",)),
    "RanksRun": ("sglab.workbench.recorders.ranks", ("Ranks",)),
}
"""What a recorder of the engine gives -> its module, and what opens on it. `described()` of each says what it is."""
MOST_OF_A_CAPTURE = 12
"""Launches that are listed of one capture; a pass of a model makes hundreds."""


@dataclass
class Thing:
    """One row of the side panel.

    Attributes:
        number: names it in later questions, as long as it lives.
        kind: batch, launch, session, recording, engine, run, layout or points.
        names: expressions that give it in the notebook, such as "session" or "launches[1]".
        title, detail: which kernel or batch it is, and its sizes.
        widgets: classes of `sglab.widgets` that open on it.
        whole: the kernel's name as its module has it, where the title has a shorter one.
    """

    number: int
    kind: str
    title: str
    detail: str
    widgets: tuple[str, ...]
    names: list[str] = field(default_factory=list)
    whole: str = ""

    def row(self) -> dict[str, Any]:
        """As the page gets it."""
        return {**asdict(self), "widgets": list(self.widgets)}


class Numbers:
    """Numbers for things, the same as long as a thing lives."""

    def __init__(self) -> None:
        self._things: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._next = itertools.count(1)

    def of(self, thing: Any) -> int:
        known = next((number for number, each in self._things.items() if each is thing), None)
        if known is None:
            known = next(self._next)
            self._things[known] = thing
        return known

    def thing(self, number: int) -> Any:
        """None if it is gone."""
        return self._things.get(number)


def list_things(names: Mapping[str, Any], widgets: Iterable[Any], numbers: Numbers) -> list[Thing]:
    """Everything that a widget can open, in the order in which the notebook named it.

    Args:
        names: the notebook's variables.
        widgets: those alive; they show things that have no name.
    """
    listed: dict[int, Thing] = {}
    launches: set[int] = set()
    schedulers: set[int] = set()
    for name, thing in _candidates(names, widgets):
        number = numbers.of(thing)
        if number not in listed:
            if not name and isinstance(thing, Session) and id(thing.launch) in launches:
                continue  # what a widget made of a launch that is listed
            if not name and id(getattr(thing, "scheduler", None)) in schedulers:
                continue  # and of an engine
            made = described(thing, number)
            if made is None:
                continue
            listed[number] = made
            if isinstance(thing, CapturedLaunch):
                launches.add(id(thing.launch))
            if made.kind == "engine":
                schedulers.add(id(thing.scheduler))
        if name and name not in listed[number].names:
            listed[number].names.append(name)
    return list(listed.values())


def _candidates(names: Mapping[str, Any], widgets: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for name, value in list(names.items()):
        if name.startswith("_") or name in ("In", "Out"):
            continue
        if isinstance(value, Capture):
            yield name, value
            if len(value) > 1:
                yield from ((f"{name}[{i}]", one) for i, one in enumerate(value[:MOST_OF_A_CAPTURE]))
        elif _kind(value):
            yield name, value
    for widget in widgets:
        for attribute in ("session", "recording", "batch", "recorded"):
            value = getattr(widget, attribute, None)
            if _kind(value):
                yield "", value
                break


def _kind(value: Any) -> str:
    """By its type alone: a value that answers every attribute is none of ours."""
    types = type(value).__mro__
    if CapturedLaunch in types:
        return "launch"
    if Session in types:
        return "session"
    if EventLog in types:
        return "recording"
    engines = sys.modules.get("sglab.serving.engine")
    if engines is not None and engines.Engine in types:
        return "engine"
    batches = sys.modules.get("sglab.workbench.batch")  # without it there is no batch, and no torch is needed
    if batches is not None and batches.Batch in types:
        return "batch"
    layouts = sys.modules.get("sglab.layouts")
    if layouts is not None and type(value) in (layouts.Layout, layouts.ComposedLayout, layouts.Fragment):
        return "layout"
    roofline = sys.modules.get("sglab.roofline")
    if roofline is not None and type(value) is roofline.Point:
        return "points"
    return "run" if _opens_on_run(value) else ""


def _opens_on_run(value: Any) -> tuple[str, ...]:
    """Widgets that show what a recorder of the engine gave; none: it is no such thing."""
    module, widgets = OF_A_RUN.get(type(value).__name__, ("", ()))
    return widgets if module and type(value) is getattr(sys.modules.get(module), type(value).__name__, None) else ()


def described(thing: Any, number: int) -> Thing | None:
    """The row of a thing without its names; None if it is nothing that a widget opens."""
    if isinstance(thing, Capture):
        if not len(thing):
            return None
        main = thing.main
        count = f"{len(thing)} launches, most of it " if len(thing) > 1 else ""
        title = f"{count}{readable(main.name)}"
        return Thing(number, "launch", title, _sizes(main.geometry), OF_A_LAUNCH, whole=main.name)
    kind = _kind(thing)
    if kind == "launch":
        return Thing(number, kind, readable(thing.name), _sizes(thing.geometry), OF_A_LAUNCH, whole=thing.name)
    if kind == "session":
        launch = thing.launch
        name = launch.kernel.name
        return Thing(number, kind, readable(name), _sizes(launch.geometry), OF_A_LAUNCH, whole=name)
    if kind == "recording":
        detail = f"{_sizes(thing.geometry)}, {plural(len(thing), 'warp-instruction')}"
        return Thing(number, kind, readable(thing.kernel), detail, OF_A_RECORDING, whole=thing.kernel)
    if kind == "batch":
        return _batch(thing, number)
    if kind == "run":
        title, detail = thing.described()
        return Thing(number, kind, title, detail, _opens_on_run(thing))
    if kind == "layout":
        return Thing(number, kind, _layout_name(thing), type(thing).__name__, OF_A_LAYOUT)
    if kind == "points":
        return Thing(number, kind, thing.label, f"{thing.origin}, {thing.work.nbytes:,.0f} bytes", OF_POINTS)
    if kind == "engine":
        if thing.ranks is not None:
            return None  # no widget shows the schedulers of groups, of which there may be one
        detail = (
            f"{thing.model_name}, {plural(len(thing.history), 'step')}, {thing.scheduler.allocator.size:,} KV slots"
        )
        graphs = thing.worker.graph_runner is not None
        return Thing(number, kind, type(thing.model).__name__, detail, OF_AN_ENGINE if graphs else OF_AN_ENGINE[:2])
    return None


def _batch(batch: Any, number: int) -> Thing:
    lengths = [int(length) for length in batch.seq_lens]
    title = f"{plural(len(lengths), 'request')}, {plural(sum(lengths), 'token')}"
    heads = plural(batch.num_heads, "head") if batch.kind == "mla" else f"{batch.num_heads}/{batch.num_kv_heads} heads"
    dtype = str(batch.dtype).removeprefix("torch.")
    decodes = batch.forward_mode.is_decode() and lengths
    widgets = (*OF_A_BATCH, "BackendExplorer") if decodes else OF_ANY_BATCH
    return Thing(number, "batch", title, f"{batch.kind}, {heads}, pages of {batch.page_size}, {dtype}", widgets)


def _layout_name(layout: Any) -> str:
    """As CuTe writes it; of an instruction's fragment its name."""
    return str(getattr(layout, "name", "") or layout)


def _sizes(geometry: Geometry) -> str:
    grid, block, cluster = ("×".join(map(str, _trimmed(each))) for each in _dims(geometry))
    return f"grid {grid}, block {block}" + (f", cluster {cluster}" if cluster != "1" else "")


def _dims(geometry: Geometry) -> tuple[tuple[int, ...], ...]:
    return geometry.grid, geometry.block, geometry.cluster


def _trimmed(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Without the ones at the end."""
    kept = len(sizes)
    while kept > 1 and sizes[kept - 1] == 1:
        kept -= 1
    return sizes[:kept]
