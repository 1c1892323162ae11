"""From the store at which two launches part back to the instruction at which they do."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from sglab.emulator.captures import CapturedLaunch
from sglab.emulator.session_writers import Source
from sglab.stepping.producers import Produced, Producers

Stored = tuple[CapturedLaunch, int]
"""A launch, and the position of a store in it."""
Made = TypeVar("Made")
MOST_LINES = 24
"""Of a way that only one launch goes, which branches at every operand; more are told by source lines."""
_REGISTER = re.compile(r"%\w+")
_UNFOLLOWED = ("atom.", "wmma.load", "ldmatrix.", "ld.local", "ldu.", "tex.", "suld.", "tcgen05.ld.", "mbarrier.")


@dataclass(frozen=True)
class Trace:
    """The way back from a store.

    Attributes:
        steps: pairs of instructions of `a` and `b`, the stores first; where only `a` can be followed, its instructions
            with None beside them.
        reason: what is so of the last step, in words.
        found: whether the last step is where the launches part: what it reads is the same and its result is not, or
            the instructions are not the same.
    """

    steps: tuple[tuple[Produced, Produced | None], ...]
    reason: str
    found: bool

    def __str__(self) -> str:
        if len(self.steps) > MOST_LINES and all(b is None for _, b in self.steps):
            return "\n".join([*self._by_source(), self.reason])
        lines = []
        for a, b in self.steps:
            lines.append(f"  a: {a}")
            lines += [] if b is None else [f"  b: {b}"]
        return "\n".join([*lines, self.reason])

    def _by_source(self) -> list[str]:
        """Of each source line the instruction nearest to the store: a sum over a tile is hundreds of one line."""
        lines: dict[object, list[Produced]] = {}
        for a, _ in self.steps:
            lines.setdefault(a.instruction.source or a.instruction.ptx_line, []).append(a)
        shown = list(lines.values())[:MOST_LINES]
        texts = [f"  a: {of[0]}" + (f"; {len(of) - 1} more of this line" if len(of) > 1 else "") for of in shown]
        return [*texts, f"{len(self.steps)} instructions of {len(lines)} source lines; .steps has all of them"]


def trace_both(a: Stored, b: Stored, address: int, most: int) -> Trace:
    """The way back in two launches, in step with each other, to where they part.

    Args:
        a, b: the stores to the address.
        address: of an element, in global memory.
        most: steps at most.
    """
    left, right = Producers(a[0]), Producers(b[0])
    alike = _alike(a[0], b[0])
    steps: list[tuple[Produced, Produced | None]] = []
    here = _taken(left, lambda: left.store(a[1], address)), _taken(right, lambda: right.store(b[1], address))
    while True:
        one, other = here
        if one is None or other is None:
            return Trace(tuple(steps), _ends(one, other), False)
        if _text(one, alike) != _text(other, alike):
            # What a lane did not execute has kept the value: who gave it is further back.
            if not one.executed or not other.executed:
                here = _kept(left, one), _kept(right, other)
                continue
            forked = None
            if alike and steps and _elsewhere(one, b) and _elsewhere(other, a):
                forked = _fork(left, right, *_since(steps))
            steps.append((one, other))
            if forked is not None:
                here = forked
                continue
            return Trace(tuple(steps), "they part here: the instructions are not the same", True)
        steps.append((one, other))
        if len(steps) >= most:
            return Trace(tuple(steps), f"the way was followed for {most} steps: trace(most=…) goes on", False)
        differing = _differing(one, other)
        if differing is not None:
            mine, theirs, lane, of = differing
            here = _taken(left, partial(left.of, one, mine, lane)), _taken(right, partial(right.of, other, theirs, of))
            continue
        sources = _sources(one, other)
        if sources is not None:
            here = (
                _taken(left, partial(left.of_memory, one, sources[0])),
                _taken(right, partial(right.of_memory, other, sources[1])),
            )
            continue
        if one.accumulator and other.accumulator:
            sums = (
                _taken(left, partial(left.of, one, one.accumulator)),
                _taken(right, partial(right.of, other, other.accumulator)),
            )
            if not _same_sum(*sums, one, other):
                here = sums
                continue
        if not one.sources and one.instruction.opcode.startswith(_UNFOLLOWED):
            return Trace(tuple(steps), "the way ends here: what it reads in memory cannot be followed", False)
        return Trace(tuple(steps), "what both read is the same here, what they make of it is not", True)


def trace_one(a: Stored, address: int, most: int) -> Trace:
    """The instructions of one launch that made a value, nearest first, each before what it reads."""
    way = Producers(a[0])
    found: list[Produced] = []
    seen: set[tuple[int, int, int]] = set()
    try:
        first = way.store(a[1], address)
        waiting = [] if first is None else [first]
        while waiting and len(found) < most:
            step = waiting.pop(0)
            if (step.position, step.warp, step.lane) in seen:
                continue
            seen.add((step.position, step.warp, step.lane))
            found.append(step)
            # Of a matrix product, one part of each operand: all of them were made alike, mostly.
            sources = step.sources if len(step.sources) < 3 else (step.sources[0], step.sources[-1])
            makers = [way.of(step, name) for name in step.inputs]
            makers += [way.of_memory(step, source) for source in sources]
            makers += [way.of(step, step.accumulator)] if step.accumulator else []
            waiting += [each for each in makers if each is not None]
    finally:
        way.leave()
    if not found:
        return Trace((), _ends(None, None), False)
    more = "; trace(most=…) shows more" if waiting else ""
    reason = f"of the other side only the values are known: these instructions of a made its value{more}"
    return Trace(tuple((each, None) for each in found), reason, False)


def _kept(way: Producers, step: Produced) -> Produced | None:
    """The step itself if it was executed, else who gave the register the value that it has kept."""
    return step if step.executed else _taken(way, lambda: way.of(step, list(step.inputs)[-1]))


def _elsewhere(step: Produced, other: Stored) -> bool:
    """Whether the other program has the instruction, too."""
    return any(each.text == step.instruction.text for each in other[0].launch.kernel.code)


def _since(steps: Sequence[tuple[Produced, Produced | None]]) -> tuple[Produced, Produced]:
    """The latest moments of the lanes at which the way has arrived."""
    one, other = steps[-1]
    for mine, theirs in reversed(steps):
        if theirs is None or other is None or mine.who != one.who or theirs.who != other.who:
            break
        one, other = mine, theirs
    assert other is not None
    return one, other


def _fork(
    left: Producers, right: Producers, one: Produced, other: Produced
) -> tuple[Produced | None, Produced | None] | None:
    """The branch at which the lanes went separate ways; None if they did not."""
    ways = _taken(left, lambda: left.branches(one)), _taken(right, lambda: right.branches(other))
    for mine, theirs in zip(*ways, strict=False):
        if mine.instruction.text != theirs.instruction.text or mine.executed != theirs.executed:
            return mine, theirs
    return None


def _taken(way: Producers, move: Callable[[], Made]) -> Made:
    """A move of one launch, which then gives the memory back."""
    try:
        return move()
    finally:
        way.leave()


def _alike(a: CapturedLaunch, b: CapturedLaunch) -> bool:
    """Whether names of registers mean the same in both: most of the instructions are the same."""
    left, right = ({each.text for each in side.launch.kernel.code} for side in (a, b))
    return 2 * len(left & right) >= min(len(left), len(right))


def _text(step: Produced, alike: bool) -> str:
    """What must be the same in both launches: the instruction; of programs with other names, but for registers."""
    return step.instruction.text if alike else _REGISTER.sub("%", step.instruction.text)


def _differing(one: Produced, other: Produced) -> tuple[str, str, int, int] | None:
    """The first register that both read with different values: its names, and the lanes of either."""
    for mine, theirs in zip(one.inputs, other.inputs, strict=False):
        lanes = [(one.lane_of(mine), other.lane_of(theirs))]
        if one.between_lanes and one.taken is None:
            lanes += [(lane, lane) for lane in range(32)]
        for lane, of in lanes:
            if not np.array_equal(_bits(one.value(mine, lane)), _bits(other.value(theirs, of))):
                return mine, theirs, lane, of
    return None


def _sources(one: Produced, other: Produced) -> tuple[Source, Source] | None:
    """The first byte in memory that both read with different values; else what both reductions add to."""
    if len(one.sources) != len(other.sources):
        return None
    for mine, theirs in zip(one.sources, other.sources, strict=True):
        for offset, (byte, of) in enumerate(zip(mine.data, theirs.data, strict=False)):
            if byte != of:
                return _at(mine, offset), _at(theirs, offset)
    if one.sources and not one.sources[-1].data:
        return one.sources[-1], other.sources[-1]
    return None


def _at(source: Source, offset: int) -> Source:
    """One byte of it; of tensor memory, the whole cell."""
    return source if source.space == "tensor" else replace(source, address=source.address + offset)


def _same_sum(mine: Produced | None, theirs: Produced | None, one: Produced, other: Produced) -> bool:
    """Whether two wgmma found the same in an accumulator: what earlier ones left there, or the register's value."""
    if mine is not None and theirs is not None and mine.result and theirs.result:
        return bool(np.array_equal(np.array(mine.result), np.array(theirs.result), equal_nan=True))
    return one.held is not None and other.held is not None and np.array_equal(_bits(one.held), _bits(other.held))


def _bits(value: Any) -> Any:
    return np.atleast_1d(np.asarray(value)).view(np.uint8)


def _ends(one: Produced | None, other: Produced | None) -> str:
    sides = [name for name, step in (("a", one), ("b", other)) if step is None]
    return (
        f"the way ends here in {' and '.join(sides)}: the value was there when the launch began, or an atomic "
        "operation brought it"
    )
