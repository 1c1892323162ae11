"""Where a run stops: breakpoints, watched memory, phases of barriers, whether the page set them or a cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sglab.compilers.source import short_name
from sglab.emulator.session import Session
from sglab.emulator.state import Breakpoint
from sglab.emulator.watch import Watch

from .code import CodeTables

NEW = 0
"""Of a point that the session has not numbered yet."""
MOST_GONE = 100
"""How many points that were removed are kept, in case that is taken back."""


@dataclass
class StopPoint:
    """One of them.

    Attributes:
        id: its number in the session, which it keeps when it is switched off or changed.
        kind: line, ptx, code (instructions that are not those of one line), watch or phase.
        label: for people.
        place: for the page: a file and line, a PTX line, or nothing.
        lines: PTX lines before which it stops.
        cta, warp: limit it to a CTA, and to a warp; None for all.
        when: what a lane must hold, "%r5 == 3"; empty: anything.
        arm: makes it in the session and returns its number there, a new one.
        number: its id, while it is on.
    """

    id: int
    kind: str
    label: str
    arm: Callable[[], int]
    place: dict[str, int] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    cta: int | None = None
    warp: int | None = None
    when: str = ""
    enabled: bool = True
    number: int | None = None

    def row(self) -> dict[str, Any]:
        shown = ("id", "kind", "label", "place", "lines", "cta", "warp", "when", "enabled", "number")
        return {name: getattr(self, name) for name in shown}


class StopPoints:
    """All of the session's, in the order in which they were made, and those that are switched off."""

    def __init__(self, session: Session, code: CodeTables) -> None:
        self._session, self._code = session, code
        self._all: dict[int, StopPoint] = {}
        self._gone: dict[int, StopPoint] = {}

    def rows(self) -> list[dict[str, Any]]:
        self._follow()
        return [point.row() for point in self._all.values()]

    def of_number(self, number: int | None) -> StopPoint | None:
        """By its number in the session."""
        self._follow()
        return next((each for each in self._all.values() if number is not None and each.number == number), None)

    def toggle_line(self, file: int, line: int) -> str:
        """A breakpoint at a source line: set, or taken away where there is one. For a line without instructions the
        next one that has some is taken. Returns what was done, as a sentence."""
        at = self._code.line_with_code(file, line)
        path, place = self._code.paths[file], {"file": file, "line": at}
        label = f"{short_name(path)}:{at}"
        pcs = self._code.pcs_where_line_begins(file, at)
        return self._toggle(place, f"line {line}", at != line, lambda: self._add("line", label, pcs, place, (path, at)))

    def toggle_ptx(self, line: int) -> str:
        """The same at a line of PTX."""
        at = self._code.ptx_line_with_code(line)
        place, pcs = {"ptx": at}, self._code.pcs_of_ptx_line(at)
        return self._toggle(
            place, f"PTX line {line}", at != line, lambda: self._add("ptx", f"PTX line {at}", pcs, place)
        )

    def _toggle(self, place: dict[str, int], wanted: str, moved: bool, add: Callable[[], StopPoint]) -> str:
        self._follow()
        there = [point for point in self._all.values() if point.place == place]
        without = f"{wanted[0].upper()}{wanted[1:]} has no instruction"
        if moved and there:
            return f"{without}; the next that has one, {there[0].label}, has breakpoint {there[0].id} already."
        for point in there:
            self.remove(point.id)
        if there:
            return f"Breakpoint {there[0].id}, {there[0].label}, is removed."
        made = add()
        if moved:
            return f"{without}: breakpoint {made.id} is set at the next that has one, {made.label}."
        return f"Breakpoint {made.id} is set at {made.label}."

    def add_watch(self, watch: Watch, access: str) -> str:
        words = {"write": "is written", "read": "is read", "any": "is accessed"}
        if access not in words:
            raise ValueError(f"access must be 'write', 'read' or 'any'; got {access!r}")

        def arm() -> int:
            return watch.arm(self._session, access)

        made = self._insert(StopPoint(NEW, "watch", f"{watch.expression} {words[access]}", arm))
        return f"Breakpoint {made.id} stops where {made.label}."

    def add_phase(self, cta: int, offset: int) -> str:
        def arm() -> int:
            return self._session.break_phase(mbarrier=offset, cta=cta)

        label = f"a phase of mbarrier smem+0x{offset:x} ends"
        made = self._insert(StopPoint(NEW, "phase", label, arm, cta=cta))
        return f"Breakpoint {made.id} stops where {label}."

    def limit(self, id: int, cta: int | None, warp: int | None) -> None:
        """Has a breakpoint stop for one warp only, or for all again."""
        point = self._get(id)
        self._change(point, cta, warp, point.when)

    def condition(self, id: int, when: str) -> None:
        """Has a breakpoint stop only where a lane holds such values, or anywhere again."""
        point = self._get(id)
        self._change(point, point.cta, point.warp, when.strip())

    def _change(self, point: StopPoint, cta: int | None, warp: int | None, when: str) -> None:
        """To all of these or, where they cannot be, to none."""
        before = (point.cta, point.warp, point.when)
        self._disarm(point)
        point.cta, point.warp, point.when = cta, warp, when
        try:
            self._arm(point)
        except Exception:
            point.cta, point.warp, point.when = before
            self._arm(point)
            raise

    def enable(self, id: int, enabled: bool) -> None:
        point = self._get(id)
        self._disarm(point)
        point.enabled = enabled
        self._arm(point)

    def remove(self, id: int) -> None:
        point = self._get(id)
        self._disarm(point)
        self._gone[id] = self._all.pop(id)
        for oldest in [*self._gone][:-MOST_GONE]:
            del self._gone[oldest]

    def clear(self) -> None:
        self._follow()
        for id in [*self._all]:
            self.remove(id)

    def put_back(self, points: list[dict[str, Any]], instead: list[int]) -> str:
        """Takes back what a reader has done, or does it again. Points of which neither list knows stay.

        Args:
            points: id, cta, warp, when and enabled of those that there were.
            instead: the ids of those that there are since.
        """
        self._follow()
        wanted = {each["id"]: each for each in points}
        for id in instead:
            if id not in wanted and id in self._all:
                self.remove(id)
        lost = [id for id in wanted if id not in self._all and id not in self._gone]
        for id, each in wanted.items():
            if id in lost:
                continue
            point = self._all.get(id) or self._gone.pop(id)
            limits = each["cta"], each["warp"], each["when"], each["enabled"]
            if id in self._all and limits == (point.cta, point.warp, point.when, point.enabled):
                continue
            self._disarm(point)
            point.cta, point.warp, point.when, point.enabled = limits
            self._arm(point)
            self._all[id] = point
        self._all = dict(sorted(self._all.items()))
        return f"{len(lost)} of the breakpoints cannot be set again." if lost else ""

    def _follow(self) -> None:
        """What cells have set and taken away since."""
        there = {each.number: each for each in self._session.breakpoints}
        for point in [*self._all.values()]:
            if point.number is not None and point.number not in there:
                del self._all[point.id]
        known = {point.number: point for point in self._all.values()}
        for number, breakpoint in there.items():
            mine = known.get(number)
            if mine is None:
                self._adopt(breakpoint)
            elif breakpoint.pcs:  # another widget of the session may have changed it
                mine.cta, mine.warp, mine.when = breakpoint.cta, breakpoint.warp, breakpoint.when
        self._all = dict(sorted(self._all.items()))

    def _adopt(self, breakpoint: Breakpoint) -> None:
        lines = self._code.ptx_lines(breakpoint.pcs)
        place: dict[str, int] = {}
        kind: str = breakpoint.kind
        if breakpoint.source is not None:
            kind, place = "line", {"file": self._code.numbers[breakpoint.source[0]], "line": breakpoint.source[1]}
        elif len(lines) == 1:
            kind, place = "ptx", {"ptx": lines[0]}
        limits = breakpoint.cta, breakpoint.warp, breakpoint.when
        point = StopPoint(breakpoint.number, kind, breakpoint.label, lambda: 0, place, lines, *limits)
        point.number, point.arm = breakpoint.number, lambda: self._session.rebreak(breakpoint)
        if breakpoint.pcs:
            point.arm = self._armed_at(point, list(breakpoint.pcs), breakpoint.source)
        self._all[point.id] = point

    def _add(
        self, kind: str, label: str, pcs: list[int], place: dict[str, int], source: tuple[str, int] | None = None
    ) -> StopPoint:
        point = StopPoint(NEW, kind, label, lambda: 0, place, self._code.ptx_lines(pcs))
        point.arm = self._armed_at(point, pcs, source)
        return self._insert(point)

    def _armed_at(self, point: StopPoint, pcs: list[int], source: tuple[str, int] | None) -> Callable[[], int]:
        return lambda: self._session.break_code(
            pcs, point.warp, point.cta, label=point.label, source=source, when=point.when or None
        )

    def _insert(self, point: StopPoint) -> StopPoint:
        self._arm(point)
        self._all[point.id] = point
        return point

    def _get(self, id: int) -> StopPoint:
        self._follow()
        if id not in self._all:
            raise ValueError(f"there is no breakpoint {id}; there are {', '.join(map(str, self._all)) or 'none'}")
        return self._all[id]

    def _arm(self, point: StopPoint) -> None:
        if not point.enabled:
            point.number = None
            return
        made = point.arm()
        if point.id == NEW:
            point.id = made
        elif point.id != made:
            self._session.renumber(made, point.id)
        point.number = point.id

    def _disarm(self, point: StopPoint) -> None:
        if point.number is not None:
            self._session.unbreak(point.number)
            point.number = None
