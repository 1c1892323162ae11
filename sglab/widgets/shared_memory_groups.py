"""cp.async groups as the ISA counts them: what is open, what is committed, what a wait has seen done."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sglab.gpu.events import COPY_KINDS, EventLog

GROUPS = re.compile(r"cp\.async\.(commit_group|wait_group|wait_all)\b")
OFFSET = 0xFFFFFF
SHOWN = 12
"""Groups listed per warp: the latest."""


class AsyncGroups:
    """The cp.async groups of a CTA's warps, at any position.

    A group is open until commit_group closes it; wait_group N completes all but the N latest, wait_all everything.
    """

    def __init__(self, log: EventLog, cta: int) -> None:
        copies = log.copies
        mine = np.flatnonzero(copies.kind == COPY_KINDS.index("cp.async"))
        moved = {int(copies.event[row]): row for row in mine.tolist()}
        marks = {pc: found for pc, (_, name, *_) in enumerate(log.code.rows) if (found := GROUPS.match(name))}
        events = np.union1d(np.flatnonzero(np.isin(log.pc, list(marks))), np.array(list(moved), np.int64))
        self._steps: list[tuple[int, int, str, int, int]] = []
        for event in events[log.cta[events] == cta].tolist() if len(events) else []:
            warp, pc = int(log.warp[event]), int(log.pc[event])
            if event in moved:
                row = moved[event]
                self._steps.append((event, warp, "copy", int(copies.shared[row]) & OFFSET, int(copies.nbytes[row])))
            else:
                self._steps.append((event, warp, marks[pc][1], _left(log, pc), 0))

    def at(self, position: int) -> list[dict[str, Any]]:
        """By warp, before event `position`: its groups, oldest first."""
        warps: dict[int, list[dict[str, Any]]] = {}
        for event, warp, what, value, nbytes in self._steps:
            if event >= position:
                break
            groups = warps.setdefault(warp, [_group(0)])
            if what == "copy":
                _add(groups[-1], value, nbytes)
            elif what == "commit_group":
                groups[-1]["state"] = "committed"
                groups.append(_group(len(groups)))
            else:
                _complete(groups, value)
        return [
            {"warp": warp, "groups": [g for g in groups if g["copies"] or g["state"] != "open"][-SHOWN:]}
            for warp, groups in sorted(warps.items())
        ]


def _left(log: EventLog, pc: int) -> int:
    """How many groups a wait leaves in flight: the operand of wait_group, none of wait_all."""
    found = re.search(r"cp\.async\.wait_group\s+(\w+)", log.code[pc].text)
    return int(found[1], 0) if found else 0


def _group(number: int) -> dict[str, Any]:
    return {"number": number, "copies": 0, "bytes": 0, "start": -1, "end": -1, "state": "open"}


def _add(group: dict[str, Any], start: int, nbytes: int) -> None:
    group["start"] = min(start, group["start"]) if group["copies"] else start
    group["end"] = max(group["end"], start + nbytes)
    group["copies"] += 1
    group["bytes"] += nbytes


def _complete(groups: list[dict[str, Any]], left: int) -> None:
    closed = [group for group in groups if group["state"] != "open"]
    for group in closed[: len(closed) - left]:
        group["state"] = "complete"
