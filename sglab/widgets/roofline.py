"""Roofline: runs, attention's arithmetic and measurements under a GPU's published ceilings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal

import numpy as np
import traitlets

from sglab import roofline
from sglab.emulator.captures import Capture, CapturedLaunch, capturing_launches
from sglab.emulator.session import Session
from sglab.events import EventLog
from sglab.roofline import MACHINES, ORIGINS, Machine, Place, Point, Work, machine_of
from sglab.words import plural

from .base import STATIC, Widget, asset, command
from .following import not_a_launch
from .page import html_page
from .wire import WireArray

Shown = Capture | CapturedLaunch | Session | EventLog | Point | Iterable[Point]
Opened = Literal["WarpRoles", "KernelDebugger"]
OPENED = ("WarpRoles", "KernelDebugger")
ATTENTION = {
    "decode": "decode: each new token reads the whole KV cache",
    "prefill": "prefill: all new tokens at once, causal",
    "mla_decode": "MLA decode: heads share one latent row per token",
}
"""Arithmetic that the page can add, by its name in `sglab.roofline`."""
PUBLISHED = "Ceilings are what data sheets state, each with its source; points say where counts and times come from."


class Roofline(Widget):
    """FLOPs per second over FLOPs per byte, on logarithmic axes, below the ceilings of a GPU.

    A launch gives two points: its counts, which lie on the roof, as high as any kernel with these counts could reach;
    and, where the timing model has the GPU, how high it comes by modelled time. Points that are added later, by `add`
    or `watch`, appear at once.

    Args:
        things: launches (what `sglab.trace`, `gpu.capture`, `sglab.step` or `Kernel.session` returns), event logs,
            points (`sglab.roofline.Point`) or lists of points.
        machine: whose ceilings are drawn: a name of `sglab.roofline.MACHINES` or a Machine; None: the one that the
            first time was modelled for or measured on, else the H100.

    Attributes:
        points: what is drawn, in order.

    Raises:
        TypeError: an argument is none of these.
        ValueError: a launch has no FLOPs; or no such machine.
    """

    bundle = "roofline"
    format = 1
    _module = asset("roofline.js")
    _css = asset("roofline.css")

    machine = traitlets.Unicode(help="whose ceilings are drawn").tag(sync=True)
    machines: traitlets.List[Any] = traitlets.List(help="name, product, ceilings: see `_machine`").tag(sync=True)
    marks: traitlets.List[Any] = traitlets.List(help="the points: see `_mark`").tag(sync=True)
    texts = traitlets.Dict(help="what origins and kinds of arithmetic are").tag(sync=True)

    def __init__(self, *things: Shown, machine: str | Machine | None = None) -> None:
        super().__init__()
        own = [machine] if isinstance(machine, Machine) else []
        self._machines = {**MACHINES, **{each.name: each for each in own}}
        self._chosen = None if machine is None else machine_of(machine).name
        self._drawn = ""
        self.points: list[Point] = []
        self._launches: list[CapturedLaunch | Session | EventLog | None] = []
        self._opened: list[Widget] = []
        for thing in things:
            self._take(thing, "", "")
        self._show()

    def add(self, thing: Shown, label: str = "", series: str = "") -> None:
        """Draws another launch, or further points.

        Args:
            thing: as `Roofline` takes them.
            label: of a launch, instead of its kernel's name.
            series: of a launch: points of one series are joined by a line.

        Raises:
            TypeError, ValueError: as of `Roofline`; then nothing is added.
        """
        self._take(thing, label, series)
        self._show()

    @contextmanager
    def watch(self, label: str = "", series: str = "") -> Iterator[Capture]:
        """Adds every launch with FLOPs that a with-block makes on emulated devices: `with roofline.watch(): …`."""
        with capturing_launches() as launches:
            yield launches
        if launches:
            self.add(launches, label, series)

    @traitlets.validate("machine")
    def _known(self, proposal: Any) -> str:
        if proposal["value"] not in self._machines:
            raise traitlets.TraitError(self._unknown(proposal["value"]))
        return str(proposal["value"])

    @traitlets.observe("machine")
    def _machine_set(self, change: Any) -> None:
        if change["new"] != self._drawn:  # by the reader's code: widget.machine = "B200"
            self.show(change["new"])

    @command
    def show(self, machine: str) -> None:
        """Draws the ceilings of another machine."""
        if machine not in self._machines:
            raise ValueError(self._unknown(machine))
        self._chosen = machine
        self._show()

    @command
    def add_attention(
        self,
        kind: str,
        batch: int,
        length: int,
        num_heads: int,
        num_kv_heads: int = 1,
        head_dim: int = 128,
        dtype: str = "bfloat16",
    ) -> None:
        """Draws what attention of these shapes has to do."""
        if kind not in ATTENTION:
            raise ValueError(f"kind: expected one of {', '.join(ATTENTION)}; got {kind!r}")
        if not 1 <= batch <= 65_536:
            raise ValueError(f"batch: expected 1 to 65,536 requests; got {batch!r}")
        lengths = [length] * batch
        heads: dict[str, Any] = {"num_heads": num_heads, "dtype": dtype}
        if kind != "mla_decode":
            heads |= {"num_kv_heads": num_kv_heads, "head_dim": head_dim}
        work: Work = getattr(roofline, kind)(lengths, **heads)
        kv_heads = f" on {plural(num_kv_heads, 'KV head')}" if kind != "mla_decode" else ""
        unusual = [f"dim {head_dim}"] * (kind != "mla_decode" and head_dim != 128) + [dtype] * (dtype != "bfloat16")
        shape = f"{plural(num_heads, 'head')}{kv_heads}"
        name = {"mla_decode": "MLA decode"}.get(kind, kind)
        how = f"{plural(batch, 'request')} of {plural(length, 'token')}, {shape}, {dtype}."
        label = ", ".join([f"{name} {batch} × {length:,}", shape, *unusual])  # all that two points may differ in
        self.add(Point(label, work, "arithmetic", how=how))

    @command
    def remove(self, point: int) -> None:
        """Takes one point away."""
        self._check(point)
        del self.points[point], self._launches[point]
        self._show()

    @command
    def open_launch(self, widget: str, point: int) -> dict[str, Any]:
        """Opens a widget on a point's launch: its model, for hosts that show it live, and a page of it."""
        made = self.launch(widget, point)  # type: ignore[arg-type]
        title = f"{made.header['title']}: {self.points[point].label}"
        return {"widget": widget, "title": title, "model": str(made.model_id), "page": html_page([made], title)}

    def launch(self, widget: Opened, point: int) -> Widget:
        """A widget on the launch that a point was counted from.

        Raises:
            ValueError: no such point or widget; or the point came from no launch that the widget can show.
        """
        from sglab import widgets

        self._check(point)
        if widget not in OPENED:
            raise ValueError(f"widget: expected one of {', '.join(OPENED)}; got {widget!r}")
        launch = self._launches[point]
        if widget not in _opens(launch):
            raise ValueError(f"point: {self.points[point].label!r} came from nothing that {widget} can show")
        made: Widget = getattr(widgets, widget)(launch)
        self._opened.append(made)
        return made

    def _unknown(self, machine: object) -> str:
        return f"machine: expected one of {', '.join(self._machines)}; got {machine!r}"

    def _check(self, point: int) -> None:
        if not 0 <= point < len(self.points):
            raise ValueError(f"point: expected a number from 0 to {len(self.points) - 1}; got {point!r}")

    def _take(self, thing: Shown, label: str, series: str) -> None:
        added: list[tuple[Point, CapturedLaunch | Session | EventLog | None]] = []
        if isinstance(thing, Point):
            added.append((thing, None))
        elif isinstance(thing, Session | EventLog):
            log = thing.log if isinstance(thing, Session) else thing
            added += [(point, thing) for point in roofline.recorded_points(log, label, series)]
        elif isinstance(thing, Capture | CapturedLaunch):
            for launch, log in roofline.launches_of(thing):
                added += [(point, launch) for point in roofline.recorded_points(log, label, series)]
        else:
            points = list(thing) if isinstance(thing, Iterable) else [thing]
            wrong = next((each for each in points if not isinstance(each, Point)), None)
            if wrong is not None:
                makers = "sglab.trace, gpu.capture, sglab.step, Kernel.session or sglab.roofline.Point"
                raise not_a_launch(wrong, makers, "thing")
            added += [(point, None) for point in points]
        self.points += [point for point, _ in added]
        self._launches += [launch for _, launch in added]

    def _show(self) -> None:
        timed = next((point.machine for point in self.points if point.machine in self._machines), "H100")
        machine = self._machines[self._chosen or timed]
        self._drawn = machine.name
        self.publish(
            {"plotly": _plotly()},
            machine=machine.name,
            machines=[_machine(each) for each in self._machines.values()],
            marks=[self._mark(point, launch) for point, launch in zip(self.points, self._launches, strict=True)],
            texts={"origins": ORIGINS, "pipes": roofline.PIPES, "attention": ATTENTION},
            header=self._header(machine),
        )

    def _mark(self, point: Point, launch: Any) -> dict[str, Any]:
        """A point as the page reads it; `at`: its place under the roofs of each machine."""
        places = {name: _place(machine, point.work) for name, machine in self._machines.items()}
        return {
            "label": point.label,
            "origin": point.origin,
            "seconds": point.seconds,
            "machine": point.machine,
            "series": point.series,
            "how": point.how,
            "flops": [[kind, count] for kind, count in point.work.flops.items() if count],
            "bytes": point.work.nbytes,
            "requestedBytes": point.work.requested_bytes,
            "at": {name: place for name, place in places.items() if place},
            "opens": list(_opens(launch)),
        }

    def _header(self, machine: Machine) -> dict[str, Any]:
        origins = [origin for origin in ORIGINS if any(point.origin == origin for point in self.points)]
        return {
            "title": "Roofline",
            "subject": f"{machine.product} · {plural(len(self.points), 'point')}",
            "badge": {"text": " · ".join(origins) or "published", "title": PUBLISHED},
        }


@cache
def _plotly() -> WireArray:
    """What draws, for the page to load when it has nothing older: all widgets and saved pages send the same bytes."""
    return WireArray(np.frombuffer((STATIC / "plotly.js").read_bytes(), dtype=np.uint8))


def _opens(launch: Any) -> tuple[str, ...]:
    if launch is None:
        return ()
    return OPENED[:1] if isinstance(launch, EventLog) else OPENED


def _place(machine: Machine, work: Work) -> dict[str, Any] | None:
    try:
        place: Place = machine.place(work)
    except ValueError:  # no peak is published for its arithmetic
        return None
    return {
        "kind": place.kind,
        "flops": place.flops,
        "intensity": place.intensity,
        "attainable": place.attainable,
        "bound": place.bound,
        "seconds": place.seconds,
    }


def _machine(machine: Machine) -> dict[str, Any]:
    ceilings = [[ceiling.kind, ceiling.rate, ceiling.source] for ceiling in machine.ceilings]
    return {"name": machine.name, "product": machine.product, "ceilings": ceilings}
