"""Each asynchronous copy of a cluster with its coordinates, and what the launch reads of a batch's pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from sglab.events.cluster.trace import Array, ClusterTrace
from sglab.events.log import EventLog
from sglab.workbench.recorders.page_reads import PageReads


def copies(trace: ClusterTrace) -> Array:
    """(11, n): event, kind (index into COPY_KINDS), map (-1: none), five coordinates, bytes, lowest address in shared
    memory (shared::cluster), mask of the CTAs that get it."""
    table = trace.log.copies
    at = np.flatnonzero(trace.here(table.event))
    first = [table.event[at], table.kind[at], table.map[at], *table.coordinates[at].T]
    rest = [table.nbytes[at], table.shared[at], table.multicast[at]]
    return np.stack([column.astype(np.int64) for column in (*first, *rest)]).astype(np.int32)


def map_rows(log: EventLog) -> list[dict[str, Any]]:
    """The tensor maps that copies used: element, dims and box, dimension 0 first."""
    return [{"element": one.element, "dims": list(one.dims), "box": list(one.box)} for one in log.maps]


def page_reads(trace: ClusterTrace, reads: PageReads | None) -> Array:
    """(5, n): event, page, request, first token, tokens, of the cluster's reads."""
    if reads is None:
        return np.zeros((5, 0), np.int32)
    at = np.flatnonzero(trace.here(reads.event))
    columns = (reads.event, reads.page, reads.request, reads.token, reads.tokens)
    return np.stack([column[at] for column in columns]).astype(np.int32)


def page_ctas(trace: ClusterTrace, reads: PageReads | None) -> Array:
    """(4, n): page, request, the first token of it that is read, CTA: who of the whole launch reads what."""
    if reads is None:
        return np.zeros((4, 0), np.int32)
    rows = np.stack([reads.page, reads.request, trace.log.cta[reads.event].astype(np.int64), reads.token])
    rows = rows[:, np.lexsort(rows[::-1])]
    first = np.ones(rows.shape[1], bool)
    first[1:] = (rows[:3, 1:] != rows[:3, :-1]).any(axis=0)
    return rows[:, first][[0, 1, 3, 2]].astype(np.int32)
