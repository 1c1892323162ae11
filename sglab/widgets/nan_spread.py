"""NanSpread: which instruction made the first NaN, who read it, and how it spread through a launch's memories."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import traitlets

from sglab.emulator.captures import Capture, CapturedLaunch
from sglab.emulator.nans import ROLES, NanEvent, NanTrace, find_nans
from sglab.emulator.session import Session
from sglab.events.cluster.columns import readable
from sglab.words import plural

from .base import asset, command
from .changes import Versions
from .following import follow, followers, launch_name, not_a_launch, run_again
from .opening import Opener, of_launch
from .page import html_page

DRAWN = 1_000
"""Events that are drawn at most: the first ones."""
MEMORIES = ("global", "shared", "tensor")
ROW_NAMES = {"global": "global memory", "shared": "shared memory", "tensor": "tensor memory"}
FLOATS: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
TOLD = 48
"""Origins whose operands' values are told at most: the session visits each."""
SOURCES = re.compile(r"%\w+")
METHOD = (
    "The emulator ran this launch again and looked at every float that instructions and copies read and wrote. An "
    "event's parents are those that wrote the registers and bytes that it read."
)


class NanSpread(Opener):
    """Where NaN was made or came in, who read it, how it spread through registers, shared, tensor and global memory.

    Args:
        launch: what `sglab.trace`, `gpu.capture`, `sglab.step` or `Kernel.session` returns. It is run once more; its
            tensors have their values again afterwards, and the session is where it was.
        infinite: follow infinities as well.

    Attributes:
        trace: the events, as `sglab.emulator.nans.find_nans` gives them.
        session: the launch under control, which pressing an event moves to its instruction.

    Raises:
        TypeError: the launch is none of these, or `infinite` no bool.
        KernelError: the kernel failed.
    """

    bundle = "nan_spread"
    format = 1
    _module = asset("nan_spread.js")
    _css = asset("nan_spread.css")

    shown = traitlets.Dict(help="rows, roles, instructions, sentences: see `_shown`").tag(sync=True)
    now = traitlets.Int(-1, help="where the session is").tag(sync=True)

    def __init__(self, launch: Capture | CapturedLaunch | Session, *, infinite: bool = False) -> None:
        if not isinstance(launch, Capture | CapturedLaunch | Session):
            raise not_a_launch(launch, "sglab.trace, gpu.capture, sglab.step or Kernel.session")
        if not isinstance(infinite, bool):
            raise TypeError(f"infinite must be True or False; got {infinite!r}")
        super().__init__()
        self._begin(launch if isinstance(launch, Session) else launch.session(), infinite)

    def _begin(self, session: Session, infinite: bool) -> None:
        self.session = session
        self.launch_name = launch_name(session.launch.kernel.name, session.launch.geometry)
        self._look(infinite)
        self._versions, self.outdated = Versions.of(session), ""
        self.now = session.now
        follow(session, self, NanSpread._session_moved, NanSpread._restarted)

    def _session_moved(self) -> None:
        self.now = self.session.now

    @command
    def run_again(self) -> str:
        """Begins the session again, on what its tensors hold now, and goes to where it was."""
        return run_again(self.session)

    def _restarted(self) -> None:
        self._begin(self.session, bool(self.shown["infinite"]))

    @command
    def look(self, infinite: bool) -> None:
        """Looks for NaN again, with infinities or without."""
        self._look(bool(infinite))

    @command
    def seek(self, event: int) -> None:
        """Moves the session to just before the instruction of an event."""
        if not 0 <= event < len(self.trace):
            raise ValueError(f"event: expected a number from 0 to {len(self.trace) - 1}, got {event!r}")
        self.session.seek(self.trace[event].position)

    @command
    def debug(self, event: int, page: bool = False) -> dict[str, Any]:
        """Moves the session as `seek` does, for a KernelDebugger of it to show; makes one where there is none.

        Args:
            page: with a page of the one that was made, for hosts that cannot show it live.

        Returns:
            What was made: widget, title, model, page (empty unless asked for); empty if the session has another.
        """
        self.seek(event)
        shown = [each for each in followers(self.session) if each.bundle == "kernel_debugger"]
        mine = [each for each in shown if each in self._made]
        if shown and not mine:
            return {}
        made = mine[0] if mine else self.keep(of_launch("KernelDebugger", self.session))
        title = f"{made.header['title']} of {made.header['subject']}"
        found = {"widget": type(made).__name__, "title": title, "model": str(made.model_id)}
        return {**found, "page": html_page([made], title) if page else ""}

    def _look(self, infinite: bool) -> None:
        self.trace = find_nans(self.session, infinite=infinite)
        drawn = self.trace[:DRAWN]
        operands = _operands(self.session, [each for each in self.trace.origins if each.number < DRAWN][:TOLD])
        links = [(parent, event.number) for event in drawn for parent in event.parents]
        rows = _rows(drawn)
        self.publish(
            {
                "events": np.array(
                    [
                        [list(ROLES).index(event.role), rows.index(_row(event)), event.position, event.cta, event.warp]
                        for event in drawn
                    ],
                    np.int64,
                )
                .reshape(len(drawn), 5)
                .T,
                "links": np.array(links, np.int32).reshape(len(links), 2).T,
            },
            shown=_shown(self.trace, drawn, rows, operands),
            header=_header(self.session, self.trace),
        )


def _row(event: NanEvent) -> tuple[Any, ...]:
    """Where the NaN is after the event."""
    spaces = [place.space for place in event.places if place.written]
    return (MEMORIES.index(spaces[0]),) if spaces else (len(MEMORIES), event.cta, event.warp)


def _rows(events: tuple[NanEvent, ...]) -> list[tuple[Any, ...]]:
    return sorted({_row(event) for event in events})


def _operands(session: Session, origins: list[NanEvent]) -> dict[int, list[str]]:
    """What instructions that made a NaN read, by event: ["read by lane 3", "%r1 = -inf, %r27 = -inf"].

    Nothing where it came in from outside, or was made in a type of which a register holds several values. The session
    is where it was.
    """
    now = session.now
    with session.quiet():
        try:
            return {each.number: told for each in origins if (told := _read_by(session, each))}
        finally:
            session.seek(now)


def _read_by(session: Session, event: NanEvent) -> list[str]:
    made = event.made or event.lanes_written
    dtype = FLOATS.get(event.instruction.opcode.rsplit(".", 1)[-1])
    names = SOURCES.findall(event.instruction.text.partition(",")[2])
    if event.role == "came" or event.kind != "instruction" or dtype is None or not names:
        return []
    lane = (made & -made).bit_length() - 1
    session.seek(event.position)
    groups = session.warp(event.warp, event.cta).groups
    group = next((i for i, each in enumerate(groups) if each.mask >> lane & 1), 0)
    held = session.registers(event.warp, group, event.cta)
    values = [
        f"{name} = {held[name].values.view(dtype)[lane]:.6g}"
        for name in dict.fromkeys(names)
        if name in held and held[name].values.dtype.itemsize == np.dtype(dtype).itemsize
    ]
    return [f"read by lane {lane}", ", ".join(values)] if values else []


def _shown(
    trace: NanTrace, drawn: tuple[NanEvent, ...], rows: list[tuple[Any, ...]], operands: dict[int, list[str]]
) -> dict[str, Any]:
    first = trace.first
    facts = [_facts(event, trace.infinite) for event in drawn]
    for number, told in operands.items():
        facts[number].insert(1, told)
    return {
        "rows": [ROW_NAMES[MEMORIES[row[0]]] if len(row) == 1 else f"CTA {row[1]} warp {row[2]}" for row in rows],
        "roles": [[name, text.replace("NaN", _what(trace.infinite))] for name, text in ROLES.items()],
        "infinite": trace.infinite,
        "events": len(trace),
        "truncated": trace.truncated,
        "first": -1 if first is None else first.number,
        "origins": [each.number for each in trace.origins if each.number < len(drawn)],
        "later": _stored(trace[len(drawn) :]),
        "facts": facts,
        "sentences": [sentence(event, trace.infinite) for event in drawn],
    }


def _stored(events: Sequence[NanEvent]) -> str:
    """What of global memory events stored to, by name: "lse, out"."""
    places = [place for event in events for place in event.places if place.written and place.space == "global"]
    names = (re.split(r"[\[+]", place.text)[0].rpartition(", ")[2] for place in places)
    return _few(names)


def _facts(event: NanEvent, infinite: bool) -> list[list[str]]:
    """Rows of the details pane."""
    instruction = event.instruction
    facts = [["instruction", instruction.text], ["PTX line", str(instruction.ptx_line)]]
    if places := instruction.places:
        facts.append(["source", ", ".join(re.sub(r"\S*/", "", place) for place in places)])
    facts.append(["executed by", f"warp {event.warp} of CTA {event.cta}"])
    if event.kind == "operation":
        facts.append(["carried out", "asynchronously, after its issue"])
    if event.made:
        facts.append(["made by", f"{_lanes(event.made)}: nothing that it read was {_what(infinite)}"])
    it = "" if infinite else "NaN "
    for title, names in ((f"{it}read from", event.read), (f"{it}written to", event.written)):
        if names:
            facts.append([title, _few(names)])
    for title, written in ((f"{it}found in", False), (f"{it}left in", True)):
        places = [place.text for place in event.places if place.written == written]
        if places:
            facts.append([title, _few(places)])
    return facts


def _few(names: Any) -> str:
    listed = list(dict.fromkeys(names))
    more = f" and {len(listed) - 4} more" if len(listed) > 4 else ""
    return ", ".join(listed[:4]) + more


def sentence(event: NanEvent, infinite: bool = False) -> str:
    """What happened, in one sentence."""
    what = _what(infinite)
    opcode = _short(event.instruction.opcode)
    lanes = _lanes(event.lanes_written or event.lanes_read)
    where = f" of {lanes}" if event.kind != "operation" else ""
    if event.role == "made":
        if event.kind == "operation":
            return f"{opcode} made {what} in {event.lanes_written:,} elements; nothing that it read was."
        return f"{opcode} made {what} in {_few(event.written)}{where}: nothing that it read was."
    if event.role == "came":
        place = _place(event, False) or "outside"
        told = f"{what} came in from {place}, with {opcode}{where}"
        return told if told.endswith("…") else f"{told}."
    if event.role == "stored":
        place = _place(event, True) or _local(event) or "memory"
        return f"{opcode}{where} stored it to {place}."
    if event.role == "stopped":
        return f"{opcode}{where} read it{_of(event.read)}, and the result is no {what}."
    if event.kind == "operation":
        place = next((f" from {place.text} on" for place in event.places if place.written), " of its accumulators")
        return f"{opcode} spread it to {event.lanes_written:,} elements{place}."
    place = _place(event, False) or _local(event)
    source = f" in {place}" if place else _of(event.read)
    if event.made:
        spread = _lanes(event.lanes_written & ~event.made)
        return (
            f"{opcode} of {spread} read it{source} and wrote it to {_few(event.written)}; {_lanes(event.made)} made it."
        )
    return f"{opcode}{where} read it{source} and wrote it to {_few(event.written)}."


def _place(event: NanEvent, written: bool) -> str:
    """Where it was found or left, in a few words; empty where that was no memory."""
    places = list(dict.fromkeys(place.text for place in event.places if place.written == written))
    if places and places[0].startswith("tmem"):
        return places[0]  # the others are the columns beside it
    if len(places) < 3:
        return " and ".join(places)
    return f"{places[0]} and {plural(len(places) - 1, 'other place')}"


def _local(event: NanEvent) -> str:
    return "local memory" if ".local." in event.instruction.opcode else ""


def _what(infinite: bool) -> str:
    return "NaN or infinity" if infinite else "NaN"


def _short(opcode: str) -> str:
    """Without the modifiers of a long mnemonic."""
    return opcode if len(opcode) <= 32 else ".".join(opcode.split(".")[:4]) + "…"


def _of(names: tuple[str, ...]) -> str:
    return f" in {_few(names)}" if names else ""


def _lanes(mask: int) -> str:
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    if len(lanes) == 32:
        return "all lanes"
    if len(lanes) == 1:
        return f"lane {lanes[0]}"
    if 1 < len(lanes) <= 4 and lanes[-1] - lanes[0] + 1 > len(lanes):
        return f"lanes {', '.join(map(str, lanes))}"
    if lanes and lanes[-1] - lanes[0] + 1 == len(lanes):
        return f"lanes {lanes[0]}–{lanes[-1]}"
    return f"{len(lanes)} lanes"


def _header(session: Session, trace: NanTrace) -> dict[str, Any]:
    kernel, device = session.launch.kernel.name, session.device
    count = f"{len(trace):,}{' or more' if trace.truncated else ''} events"
    origins = f"{len(trace.origins):,} origin{'' if len(trace.origins) == 1 else 's'}"
    subject = f"{readable(kernel)}: {count}, {origins}" if len(trace) else f"{readable(kernel)}: none"
    return {
        "title": "NaN",
        "subject": subject,
        "whole": kernel,
        "badge": {"text": f"emulated {getattr(device, 'arch', '')}".strip(), "title": METHOD},
    }
