"""One cluster of a recorded launch: its columns, and what they show of its pipelines and operations."""

from __future__ import annotations

from typing import Any

from sglab.events.cluster.columns import Array, ClusterColumns
from sglab.events.cluster.copies import copies
from sglab.events.cluster.operations import Operations
from sglab.events.cluster.pipelines import barrier_rows, pipelines
from sglab.events.cluster.states import timed_states
from sglab.events.timing import TimedLog


class ClusterTrace(ClusterColumns):
    """What happened in one cluster of a recorded launch.

    >>> trace = ClusterTrace(kernel.record(device, grid=2, cluster=2, args=[out]), cluster=0)
    >>> [pipeline["name"] for pipeline in trace.pipelines()]
    ['load→mma', 'mma→softmax']

    Args:
        log: what `Kernel.record`, `sglab.trace` or a session's `log` gives.
        cluster: linear index among the grid's clusters; a launch without clusters has one CTA in each.
    """

    def barrier_names(self) -> list[dict[str, Any]]:
        """The barriers that the cluster used, in the order in which other tables number them.

        Returns:
            Of each: kind ("named", "mbarrier" or "cluster"), rank of the CTA that it belongs to, object (its number, or
            the byte offset of an mbarrier in shared memory), and a name by the roles that use it: "load→mma full[2]".
        """
        return barrier_rows(self)

    def pipelines(self) -> list[dict[str, Any]]:
        """Rings of full mbarriers, the longest first, each with the ring of as many empty ones that answers it.

        Returns:
            Of each: name, rank, producers and consumers (roles), full and empty (barriers by stage, as numbers). empty
            has no entries where only the order of the work frees a stage.
        """
        return pipelines(self)

    def operations(self) -> Operations:
        """Asynchronous operations as spans: copies, matrix products, tensor memory."""
        return Operations.of(self)

    def copies(self) -> Array:
        """Asynchronous copies, one column each.

        Returns:
            int32 (11, n): event, kind (index into COPY_KINDS), tensor map (-1: none), five coordinates, bytes, lowest
            address in shared memory (shared::cluster), mask of the CTAs that get it.
        """
        return copies(self)

    def timed_states(self, timed: TimedLog) -> tuple[Array, Array]:
        """The changes of barriers in the order in which a modelled GPU has them happen.

        Args:
            timed: the whole launch in modelled time, `log.timed("sm_100")`.

        Returns:
            int32 (5, n): barrier, parity, pending, expected, tx-count after a change; and float32 (1, n): when, in ns,
            ascending.
        """
        return timed_states(self, timed)
