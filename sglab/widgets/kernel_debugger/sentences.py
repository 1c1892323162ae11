"""Why the session is where it is, as a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from sglab.compilers.source import short_name
from sglab.emulator.session import Session
from sglab.emulator.state import Place, Stop
from sglab.gpu import KernelError
from sglab.gpu.fault import Wait
from sglab.gpu.geometry import Geometry

from .stops import StopPoint

MOST_OPCODE = 32
"""Characters of an opcode in a sentence."""

LineOf: TypeAlias = Callable[[int], "tuple[str, int] | None"]
"""The source line of an instruction, by pc."""


def sentence(session: Session, stop: Stop | None, point: StopPoint | None, line_of: LineOf) -> str:
    """Of a stop; None: nothing has been requested yet, or Python moved the session."""
    if session.over:
        count = len(session.findings)
        found = f", with {count} finding{'s' * (count != 1)}" if count else ""
        return f"The launch has ended after {session.now:,} warp-instruction{'s' * (session.now != 1)}{found}."
    if stop is not None and stop.reason == "breakpoint" and point is not None:
        return _at_breakpoint(session, stop, point, line_of)
    if session.now == 0:
        return "Nothing has run yet."
    if stop is not None and stop.reason == "exited":
        return "The warp has exited: it executes nothing more. Choose another (↓), or run on."
    ahead = stop.at if stop is not None and stop.reason == "breakpoint" else None
    if ahead is not None:
        return f"{_who(ahead)} is about to execute {_what(ahead, line_of)}."
    return f"{_who(session.last)} executed {_what(session.last, line_of)}." if session.last is not None else ""


def failure(error: KernelError, where: int, geometry: Geometry) -> dict[str, Any]:
    """A kernel's failure, for the page: what happened, where, and at which position."""
    fault = error.fault
    found: dict[str, Any] = {"message": str(error), "position": where, "kind": "fault"}
    if fault is not None:
        found |= {"kind": fault.kind, "cta": list(fault.cta), "warp": fault.warp, "lane": fault.lane}
        found |= {"ptxLine": fault.ptx_line, "file": fault.source_file, "line": fault.source_line}
        found["cycle"] = [_wait(wait, geometry) for wait in fault.cycle]
    return found


def _wait(wait: Wait, geometry: Geometry) -> dict[str, Any]:
    return {
        "cta": geometry.linear(wait.cta),
        "warp": wait.warp,
        "ptxLine": wait.ptx_line,
        "kind": wait.kind,
        "object": wait.object,
        "waits": wait.waits,
        "next": wait.next,
        "nextLine": wait.next_line,
    }


def _at_breakpoint(session: Session, stop: Stop, point: StopPoint, line_of: LineOf) -> str:
    ahead = session.next
    if point.kind in ("line", "ptx", "code") and ahead is not None:
        return f"Breakpoint {point.id}, {point.label}: {_who(ahead)} is about to execute {_what(ahead, line_of)}."
    name = f"{'Watch' if point.kind == 'watch' else 'Breakpoint'} {point.id}: {point.label}"
    if point.kind == "watch" and ahead is not None:
        return f"{name}: {_who(ahead)} is about to execute {_what(ahead, line_of)}."
    return f"{name}: {_who(stop.at)} executed {_what(stop.at, line_of)}." if stop.at is not None else f"{name}."


def _who(place: Place | None) -> str:
    return "" if place is None else f"warp {place.warp} of CTA {place.cta}"


def _what(place: Place | None, line_of: LineOf) -> str:
    if place is None:
        return ""
    at = place.instruction
    line = line_of(at.pc)
    where = f"{short_name(line[0])}:{line[1]}" if line else f"PTX line {at.ptx_line}"
    return f"{_short(at.opcode)} ({where})"


def _short(opcode: str) -> str:
    """With as many modifiers as one can take in; the listing has them all."""
    first, *modifiers = opcode.split(".")
    kept = first
    for modifier in modifiers:
        if len(kept) + len(modifier) >= MOST_OPCODE:
            return f"{kept}…"
        kept += f".{modifier}"
    return kept


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]
