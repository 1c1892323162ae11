"""cp.async groups of a recorded launch, as the ISA counts them: open, in flight, or seen done by a wait.

Every thread counts its own groups. Copies go to its open group until commit_group closes it; wait_group N returns when
all but the N latest closed groups are complete, wait_all when all are.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

from sglab.events.log import COPY_KINDS, EventLog
from sglab.gpu import core

OFFSET = 0xFFFFFF
WARP = 0xFFFFFFFF


@dataclass
class AsyncGroup:
    """One group. copies: instructions; nbytes: of all lanes; start, end: offsets in shared memory, -1 without copies.

    Attributes:
        opened, committed, completed: events of its first copy, of its commit_group and of the wait that saw it done, or
            -1.
    """

    number: int
    copies: int = 0
    nbytes: int = 0
    start: int = -1
    end: int = -1
    opened: int = -1
    committed: int = -1
    completed: int = -1

    def add(self, event: int, start: int, nbytes: int) -> None:
        self.start = min(start, self.start) if self.copies else start
        self.end = max(self.end, start + nbytes)
        self.opened = self.opened if self.copies else event
        self.copies += 1
        self.nbytes += nbytes


@dataclass
class AsyncWait:
    """A wait_group or wait_all. left: how many groups it lets be in flight, 0 of wait_all.

    Attributes:
        completed, in_flight: numbers of the groups that it sees done, and of the closed ones that may still be under
            way.
    """

    event: int
    left: int
    completed: list[int]
    in_flight: list[int]


@dataclass
class AsyncPipeline:
    """Threads of one warp with the same counts. lanes: their mask; groups: oldest first, the open one last."""

    warp: int
    lanes: int = WARP
    groups: list[AsyncGroup] = field(default_factory=lambda: [AsyncGroup(0)])
    waits: list[AsyncWait] = field(default_factory=list)

    def without(self, mask: int) -> AsyncPipeline:
        """Takes the lanes outside of `mask` off, with their part of the bytes, and returns them."""
        other, whole = deepcopy(self), self.lanes.bit_count()
        self.lanes, other.lanes = self.lanes & mask, self.lanes & ~mask
        for each in (self, other):
            for group in each.groups:
                group.nbytes = group.nbytes * each.lanes.bit_count() // whole
        return other

    def commit(self, event: int) -> None:
        self.groups[-1].committed = event
        self.groups.append(AsyncGroup(len(self.groups)))

    def wait(self, event: int, left: int) -> None:
        closed = [group for group in self.groups[:-1] if group.completed < 0]
        done = closed[: max(0, len(closed) - left)]
        for group in done:
            group.completed = event
        flying = closed[len(done) :]
        self.waits.append(AsyncWait(event, left, [one.number for one in done], [one.number for one in flying]))


def async_groups(log: EventLog, cta: int = 0) -> list[AsyncPipeline]:
    """The groups of a CTA's threads, by warp and lanes; empty if none uses cp.async."""
    copies = log.copies
    rows = np.flatnonzero(copies.kind == COPY_KINDS.index("cp.async"))
    moved = {int(copies.event[row]): row for row in rows.tolist()}
    marks = marks_of(log)
    events = np.union1d(np.flatnonzero(np.isin(log.pc, list(marks))), np.array(list(moved), np.int64)).astype(np.int64)
    pipelines: list[AsyncPipeline] = []
    for event in events[log.cta[events] == cta].tolist():
        warp, mask, pc = int(log.warp[event]), int(log.mask[event]), int(log.pc[event])
        for pipeline in _threads(pipelines, warp, mask):
            if event in moved:
                share = (pipeline.lanes & mask).bit_count() / mask.bit_count()
                row = moved[event]
                nbytes = round(int(copies.nbytes[row]) * share)
                pipeline.groups[-1].add(event, int(copies.shared[row]) & OFFSET, nbytes)
            elif marks[pc].event == "commit":
                pipeline.commit(event)
            else:
                if marks[pc].count < 0:
                    pipeline.commit(event)  # what is open counts, too
                pipeline.wait(event, max(0, marks[pc].count))
    return sorted(pipelines, key=lambda one: (one.warp, one.lanes & -one.lanes))


def marks_of(log: EventLog) -> dict[int, core.Effects]:
    """Commits and waits of cp.async groups, by pc. count: of a wait, the groups left; -1: wait_all."""
    return {pc: one for pc, one in enumerate(log.code.effects) if one.group == "cp.async"}


def _threads(pipelines: list[AsyncPipeline], warp: int, mask: int) -> list[AsyncPipeline]:
    """The warp's pipelines of exactly the lanes in `mask`: those that others share are split."""
    if not any(one.warp == warp for one in pipelines):
        pipelines.append(AsyncPipeline(warp))
    for one in [one for one in pipelines if one.warp == warp and one.lanes & mask and one.lanes & ~mask]:
        pipelines.append(one.without(mask))
    return [one for one in pipelines if one.warp == warp and one.lanes & mask]
