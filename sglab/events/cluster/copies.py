"""Each asynchronous copy of a cluster with its coordinates."""

from __future__ import annotations

import numpy as np

from sglab.events.cluster.columns import Array, ClusterColumns


def copies(trace: ClusterColumns) -> Array:
    """int32 (11, n), see `ClusterTrace.copies`."""
    table = trace.log.copies
    at = np.flatnonzero(trace.here(table.event))
    first = [table.event[at], table.kind[at], table.map[at], *table.coordinates[at].T]
    rest = [table.nbytes[at], table.shared[at], table.multicast[at]]
    return np.stack([column.astype(np.int64) for column in (*first, *rest)]).astype(np.int32)
