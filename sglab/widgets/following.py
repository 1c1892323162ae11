"""How widgets follow a session, and what they say of something that is none."""

from __future__ import annotations

import logging
import re
import weakref
from collections.abc import Callable
from typing import TypeVar

from sglab.emulator.session import Session
from sglab.emulator.state import Place
from sglab.gpu.errors import SessionError
from sglab.gpu.geometry import Geometry
from sglab.workbench import Batch

from .base import Widget

log = logging.getLogger(__name__)
Follower = TypeVar("Follower", bound=Widget)
_WAITS = re.compile(r"CTA \((\d+), (\d+), (\d+)\) warps? (\d+)\b.*? at PTX line (\d+)")
_CYCLE, _PARTIES = "who waits for whom:", 2  # of csrc/observe/sanitize/explain.cpp; as many are listed
_followers: weakref.WeakKeyDictionary[Session, weakref.WeakSet[Widget]] = weakref.WeakKeyDictionary()


def follow(
    session: Session, widget: Follower, moved: Callable[[Follower], None], restarted: Callable[[Follower], None]
) -> None:
    """Calls `moved(widget)` whenever the session has moved, until the widget is closed or gone; once the session has
    begun again, `restarted(widget)` instead, which follows it from then on. The session outlives its widgets and
    must not keep them alive: neither function may refer to the widget itself."""
    reference, run = weakref.ref(widget), session.restarts
    _followers.setdefault(session, weakref.WeakSet()).add(widget)

    def listener() -> None:
        alive = reference()
        if alive is None or alive.closed:
            leave()
        elif session.restarts == run:
            moved(alive)
        else:
            leave()
            _begin(alive, restarted)

    leave = session.on_move(listener)


def followers(session: Session) -> list[Widget]:
    """The widgets that show a session, but those that were closed."""
    return [widget for widget in _followers.get(session, ()) if not widget.closed]


def _begin(widget: Follower, restarted: Callable[[Follower], None]) -> None:
    """What one widget cannot show must not keep the others of the session from the new run."""
    try:
        restarted(widget)
    except Exception as error:
        log.debug("%r cannot show the new run", widget, exc_info=True)
        widget.outdated = f"The launch was run again, and this widget cannot show it: {error}"


def run_again(session: Session) -> str:
    """Begins a session's launch again, on what its tensors hold now, and goes to where it was.

    Returns:
        What the reader should know of the place; empty if it is the same.
    """
    position, last = session.now, session.last
    session.restart()
    try:
        session.seek(position)
    except SessionError:  # it ends there, and stands at its end
        return f"This run ends after {session.now:,} instructions; before, the session was at {position:,}."
    if position and _step(last) != _step(session.last):
        return f"The session is at instruction {position:,} again, which is another warp's or another one in this run."
    return ""


def _step(place: Place | None) -> tuple[int, int, int] | None:
    return None if place is None else (place.cta, place.warp, place.instruction.pc)


def launch_name(kernel: str, geometry: Geometry) -> str:
    """Names a launch: widgets follow the moments of launches with the same name. Two sessions of one launch have the
    same name, and so has its recording."""
    dims = ("x".join(map(str, each)) for each in (geometry.grid, geometry.block, geometry.cluster))
    return " ".join([kernel, *dims])


def failure_told(fault: str) -> str:
    """What a widget of a launch that failed says above the picture; empty if it did not. fault: of its EventLog."""
    if not fault:
        return ""
    first, *_ = fault.splitlines()
    parties = [line.strip().rstrip(".") for line in _parties(fault)]
    left = len(parties) - _PARTIES
    sentences = [
        first.rstrip("."),
        *parties[:_PARTIES],
        *([f"{left} more of them wait{'s' if left == 1 else ''}"] if left > 0 else []),
    ]
    return (
        f"The kernel failed: {'. '.join(sentences)}. Shown is what happened until then. "
        "KernelDebugger(session) of the same launch stops at the instruction and steps back from it."
    )


def failed_at(fault: str, geometry: Geometry) -> dict[str, int] | None:
    """The instruction that `failure_told` names first: cta (linear), warp, line of the PTX; None if it names none."""
    found = next((found for line in _parties(fault) or fault.splitlines() if (found := _WAITS.search(line))), None)
    if found is None:
        return None
    x, y, z, warp, line = map(int, found.groups())
    return {"cta": int(geometry.linear((x, y, z))), "warp": warp, "line": line}


def _parties(fault: str) -> list[str]:
    """Of a deadlock's fault, the lines that say who waits for whom."""
    lines = fault.splitlines()
    return lines[lines.index(_CYCLE) + 1 :] if _CYCLE in lines else []


def not_a_launch(got: object, makers: str, name: str = "launch") -> TypeError:
    """The refusal of what was passed as a launch.

    Args:
        makers: the functions that return one, and what else is taken.
        name: of the argument.
    """
    if isinstance(got, Batch):
        remedy = "call sglab.trace(batch, backend=…) first and pass what it returns"
    else:
        remedy = (
            "for a kernel of your own pass sglab.step(kernel[grid], …), for what else launches gpu.capture(function)"
        )
    return TypeError(f"{name} must be what {makers} returns; got {type(got).__name__}: {remedy}")
