"""Loops that test a word of global memory until another warp has written it.

The model replays what the emulator executed: such a loop lasts as many rounds as it happened to take there, and nothing
ties its end to the write.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from sglab.events.recorded_launch import RecordedLaunch
from sglab.events.tables import GLOBAL, READ, Array

ROUNDS = 32
"""As many tests in a row are called a loop that waits."""
_BODY = 16  # instructions of one round at most
_LOCK = re.compile(r"atom\b.*\.(cas|exch)\b")


@dataclass(frozen=True)
class Spin:
    """A warp's tests of one word. line: of the PTX; times: in all; cta: linear index in the grid."""

    cta: int
    warp: int
    line: int
    times: int


def spins(log: RecordedLaunch) -> list[Spin]:
    """The loops of a launch that wait for a word of global memory, the longest first."""
    accesses = log.accesses
    code = log.code
    testing = np.array(
        [one.ordered or bool(_LOCK.match(row[1])) for one, row in zip(code.effects, code.rows, strict=True)], bool
    )
    mine = (accesses.space == GLOBAL) & (accesses.kind & READ > 0) & testing[log.pc[accesses.event]]
    event, address = accesses.event[mine].astype(np.int64), accesses.address[mine]
    if len(event) < ROUNDS:
        return []
    within = _number_in_warp(log)
    cta, warp, pc = log.cta[event], log.warp[event], log.pc[event]
    order = np.lexsort((event, address, pc, warp, cta))
    event, address, cta, warp, pc = (column[order] for column in (event, address, cta, warp, pc))
    same = np.ones(len(event) - 1, bool)
    for column in (cta, warp, pc, address):
        same &= column[1:] == column[:-1]
    again = np.r_[False, same & (np.diff(within[event]) <= _BODY)]
    begin = np.flatnonzero(~again)
    times = np.diff(np.r_[begin, len(again)])
    found = [
        Spin(int(cta[at]), int(warp[at]), int(log.code.rows[pc[at]][0]), int(count))
        for at, count in zip(begin.tolist(), times.tolist(), strict=True)
        if count >= ROUNDS
    ]
    return sorted(found, key=lambda one: -one.times)


def _number_in_warp(log: RecordedLaunch) -> Array:
    """How many instructions the same warp had executed before each event."""
    order = np.lexsort((log.warp, log.cta))  # stable
    cta, warp = log.cta[order], log.warp[order]
    first = np.r_[True, (cta[1:] != cta[:-1]) | (warp[1:] != warp[:-1])]
    begin = np.flatnonzero(first)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(len(order)) - np.repeat(begin, np.diff(np.r_[begin, len(order)]))
    return numbers
