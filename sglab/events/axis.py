"""The time axis of an exported trace: the order of issue, or modelled time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sglab.events.columns import EventColumns
from sglab.events.tables import Array, Copies, Mmas, TmemEvents
from sglab.events.timing import Spans, TimedLog

ISSUE_ORDER = "issue order: one microsecond on this axis is one executed warp-instruction of the launch, not time"


@dataclass(frozen=True)
class Axis:
    """Where events and operations are on the axis, in its microseconds.

    Attributes:
        meaning: of the axis.
        start, until: of each event, as far as the next of its warp.
        copies, mmas, tmem: of the operations in these tables.
    """

    meaning: str
    start: Array
    until: Array
    copies: Spans
    mmas: Spans
    tmem: Spans


def issue_order(log: EventColumns) -> Axis:
    number = np.arange(len(log))

    def spans(table: Copies | Mmas | TmemEvents) -> Spans:
        return Spans(table.event, np.maximum(table.done, table.event.astype(np.int64) + 1))

    return Axis(ISSUE_ORDER, number, number + 1, spans(log.copies), spans(log.mmas), spans(log.tmem))


def modelled_time(timed: TimedLog) -> Axis:
    log = timed.log
    order = np.lexsort((np.arange(len(log)), log.warp, log.cta))
    same = (np.diff(log.cta[order]) == 0) & (np.diff(log.warp[order]) == 0)
    following = np.full(len(log), np.inf)
    following[order[:-1]] = np.where(same, timed.start[order[1:]], np.inf)
    until = np.maximum(np.minimum(timed.end, following), timed.start)

    def spans(of: Spans) -> Spans:
        return Spans(of.start / 1000, of.end / 1000)

    figures = timed.figures
    meaning = f"modelled time on {figures.product}, not measured; {timed.l2} L2 cache"
    return Axis(meaning, timed.start / 1000, until / 1000, spans(timed.copies), spans(timed.mmas), spans(timed.tmem))
