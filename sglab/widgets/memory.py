"""What TensorMemory and SharedMemory share: a session that they follow, its recorded events, its CTAs and its code."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import traitlets
from traitlets.traitlets import MetaHasTraits

from sglab.emulator.captures import Capture, CapturedLaunch
from sglab.emulator.session import Session
from sglab.events.log import EventLog
from sglab.gpu import GpuError

from .base import Widget, command
from .changes import Versions
from .following import follow, launch_name, not_a_launch, run_again
from .selection import selection
from .wire import WireArray

RANK_BIT = {"shared": 24, "tensor": 32}
"""Where the rank of the CTA begins in a finding's address."""
MOST_FINDINGS = 20
LAUNCH_TENSORS = {"moments"}
"""Read once by a page, not at every moment."""
Ints = npt.NDArray[np.int64]
Launched = Session | Capture | CapturedLaunch | EventLog


class _AbstractWidget(ABCMeta, MetaHasTraits):
    """Classes with traits and abstract methods."""


class MemoryWidget(Widget, metaclass=_AbstractWidget):
    """A widget that looks at one cluster's memory through a live session, moment by moment.

    Moments are the events of the launch that concern this memory; after moment m of n the first m have happened.
    A subclass sets `_moments` (ascending events) and publishes what there is to see in `_show`.
    """

    launch = traitlets.Dict(help="kernel, CTAs, why there is nothing to show").tag(sync=True)
    launch_key = traitlets.Unicode(help="changes with everything that does not depend on the moment").tag(sync=True)
    code = traitlets.Dict(help="pc -> line, opcode, text, source").tag(sync=True)
    frames: traitlets.List[Any] = traitlets.List(help="what is shown, moment by moment").tag(sync=True)
    pushed: traitlets.List[Any] = traitlets.List(help="rows that the page will read next, as bytes").tag(sync=True)
    stale = traitlets.Int(0, help="grows when the session was moved elsewhere").tag(sync=True)

    _moments: Ints

    def __init__(self, launch: Launched, log: EventLog | None, saved_moments: int, needs_session: bool) -> None:
        if isinstance(launch, Capture | CapturedLaunch):
            launch = launch.session()
        if not isinstance(launch, Session if needs_session else Session | EventLog):
            made = "sglab.trace or Kernel.session" if needs_session else "sglab.trace, Kernel.session or Kernel.record"
            raise not_a_launch(launch, made)
        if not isinstance(saved_moments, int) or saved_moments < 1:
            raise ValueError(f"saved_moments must be 1 or more; got {saved_moments!r}")
        super().__init__()
        self.saved_moments = saved_moments
        self._moving = self._told = False
        self._wanted: Sequence[dict[str, Any]] = ()
        self._runs = 0
        self._begin(launch, log)

    def _begin(self, launch: Session | EventLog, log: EventLog | None = None) -> None:
        self._runs += 1
        self.session = launch if isinstance(launch, Session) else None
        self.recording = launch if isinstance(launch, EventLog) else log or launch.log
        self.launch_name = launch_name(self.recording.kernel, self.recording.geometry)
        self._position = 0
        if self.session:
            self._versions, self.outdated = Versions.of(self.session), ""
            follow(self.session, self, MemoryWidget.session_moved, MemoryWidget._restarted)

    @command
    def run_again(self) -> str:
        """Begins the session again, on what its tensors hold now, and goes to where it was."""
        return super().run_again() if self.session is None else run_again(self.session)

    def _restarted(self) -> None:
        if self.session:
            self._begin(self.session)
            self._restart()

    @abstractmethod
    def _restart(self) -> None:
        """Shows the same CTA of another run."""

    @property
    def position(self) -> int:
        """Where the session is, or where the recording is being viewed: instructions executed."""
        return self.session.now if self.session else self._position

    def ask(self, what: str, *arguments: Any) -> Any:
        """What a method of the session returns; None without a session, and where the CTA does not run."""
        try:
            return getattr(self.session, what)(*arguments) if self.session else None
        except GpuError:
            return None

    def cta_count(self, cta: int) -> int:
        """How many CTAs the grid has. raises ValueError: `cta` is none of them"""
        total = self.recording.geometry.ctas
        if isinstance(cta, bool) or not isinstance(cta, int) or not 0 <= cta < total:
            raise ValueError(f"cta must be 0 to {total - 1}, a linear index in the grid; got {cta}")
        return total

    # Moving

    @command
    def go(self, moment: int, wanted: Sequence[dict[str, Any]] = (), selected: Mapping[str, Any] | None = None) -> None:
        """Moves the session to just after the first `moment` of the moments.

        Args:
            wanted: slices of tensors that the page looks at: they cross with what they belong to.
            selected: what the page has selected beside the moment, which it selects when it is there.
        """
        if not 0 <= moment <= len(self._moments):
            raise ValueError(f"moment must be 0 to {len(self._moments)}; got {moment}")
        self._seek(int(self._moments[moment - 1]) + 1 if moment else 0)
        self._show_with(wanted)
        if selected is not None:
            selection.take({**selected, "moment": self.position, "launch": self.launch_name})

    @command
    def follow(self, position: int, wanted: Sequence[dict[str, Any]] = ()) -> None:
        """Goes where another widget has gone: after the launch's first `position` instructions. Does nothing where that
        is what the page shows."""
        if position != self.position or self._told:
            self._told = False
            self._seek(min(max(0, position), len(self.recording)))
            self._show_with(wanted)

    @command
    def catch_up(self, wanted: Sequence[dict[str, Any]] = ()) -> None:
        """Shows the session where it is now."""
        self._told = False
        self._show_with(wanted)

    def _show_with(self, wanted: Sequence[dict[str, Any]]) -> None:
        self._wanted = wanted
        try:
            self._show()
        finally:
            self._wanted = ()

    def publish(self, tensors: Mapping[str, Any], **traits: Any) -> None:
        """Sends along the rows that the page needs: it would request them, and draw a round trip later."""
        pushed = []
        for each in self._wanted:
            name, start, stop = each["name"], int(each["start"]), int(each["stop"])
            if name in tensors and name not in LAUNCH_TENSORS:
                rows = WireArray(tensors[name][max(0, start) : max(0, stop)])
                kept = {"dtype": rows.dtype, "shape": list(rows.shape), "data": rows.tobytes()}
                pushed.append({"name": name, "start": start, "stop": stop, **kept})
        super().publish(tensors, pushed=pushed, **traits)

    def found(self, space: str) -> list[dict[str, Any]]:
        """What the session's sanitizers have found in this memory up to now."""
        findings = [one for one in (self.session.findings if self.session else ()) if one.space == space]
        return [
            {
                "text": f"{one.message}: {one.at or one.kernel}" + (f", {one.count} times" if one.count > 1 else ""),
                "severity": one.severity,
                "rank": one.address >> RANK_BIT[space],
                "address": one.address & (1 << RANK_BIT[space]) - 1,
            }
            for one in findings[:MOST_FINDINGS]
        ]

    def _seek(self, position: int) -> None:
        self._position = position
        if self.session is None or position == self.session.now:
            return
        self._moving = True
        try:
            self.session.seek(position)
        finally:
            self._moving = False

    def session_moved(self) -> None:
        """Notifies the pages that the session is elsewhere; they then ask to `catch_up`."""
        if not self._moving and not self._told:
            self._told = True
            self.stale += 1

    @property
    def moment(self) -> int:
        """How many moments have happened."""
        return int(np.searchsorted(self._moments, self.position, side="left"))

    def frame_note(self) -> str:
        """Empty where the session is at a moment of the recorded launch."""
        last = self.session.last if self.session else None
        if last is None or self.position == 0 or (self.session and self.session.fault):
            return ""
        log, event = self.recording, self.position - 1
        same = event < len(log) and (log.cta[event], log.warp[event]) == (last.cta, last.warp)
        if same and log.pc[event] == last.instruction.pc:
            return ""
        return (
            "This session was stepped by hand into another order than the recorded one: what cells hold is right, what "
            "happens when is the recording's. Stepping here continues the session's own history."
        )

    @abstractmethod
    def _show(self) -> None:
        """Publishes the session's state."""

    @abstractmethod
    def _frames(self, moments: Sequence[int]) -> None:
        """Publishes several moments, for a page without Python; the session may move."""

    def saved(self) -> dict[str, Any]:
        """The page holds at most `saved_moments` moments, the shown one among them, evenly spread over the launch.

        It opens at the shown one; where the session has not begun, and nothing is to be seen, at the next one.
        """
        position, count = self.position, len(self._moments)
        spread = np.linspace(0, count, min(self.saved_moments, count + 1) + 1).round().astype(int)[1:]
        moments = sorted({*spread.tolist(), self.moment})
        try:
            opens = self.moment or next((each for each in moments if each), 0)
            self._frames(moments)
            self.frames = [{**each, "opens": each["moment"] == opens} for each in self.frames]
            kept = f"saved: {len(moments)} of {count + 1:,} moments"
            self.header = {**self.header, "subject": f"{self.header['subject']} · {kept}"}
            return super().saved()
        finally:
            self._seek(position)
            self._show()

    # Names

    def pair_of(self, cta: int, group: int) -> list[int]:
        """The CTA alone (group 1), or the pair that it forms with its neighbour in the cluster, by rank."""
        geometry = self.recording.geometry
        first = geometry.rank(cta) // group * group
        return [geometry.neighbour(cta, rank) for rank in range(first, first + group)]

    def code_of(self, pcs: Sequence[int]) -> dict[str, Any]:
        table = {}
        for pc in sorted(set(pcs)):
            instruction = self.recording.code[pc]
            source = instruction.own_source
            table[str(pc)] = {
                "line": instruction.ptx_line,
                "opcode": instruction.opcode,
                "text": instruction.text,
                "source": _place(*source) if source else "",
            }
        return table

    def roles_of(self, ctas: Sequence[int]) -> dict[str, str]:
        """ "CTA warp" -> what the warp does, of these CTAs; empty where all warps do the same, which is no role."""
        roles = self.recording.roles
        if len({*roles.names} - {"idle", ""}) < 2:
            return {}
        return {f"{cta} {warp}": role.name for (cta, warp), role in roles if cta in ctas and role.name}

    def badge(self) -> dict[str, str]:
        device = self.session.device if self.session else None
        if device is None:
            title = (
                "A recording of this launch on the emulator: who touched what, and when. It has no values; for those "
                "give the widget what sglab.trace, sglab.step or Kernel.session returns."
            )
            return {"text": "recording, no values", "title": title}
        title = (
            "Everything drawn is the state of this launch on the emulator, on the tensors it was given. "
            "Asynchronous operations are carried out there as late as the programming model allows."
        )
        return {"text": f"emulated {device.arch}", "title": title}


def _place(file: str, line: int) -> str:
    """ "own.cu:8"; compilers write line 0 for what belongs to no line."""
    name = file.rsplit("/", 1)[-1]
    return f"{name}:{line}" if line else name
