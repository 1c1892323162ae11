"""The events of a recorded launch, as columns, and the ways to look at parts of it."""

from __future__ import annotations

from collections.abc import Sequence

from sglab.events.cluster.trace import ClusterTrace
from sglab.events.recorded_launch import RecordedLaunch
from sglab.events.shared_memory.trace import SharedMemoryTrace
from sglab.events.tables import (
    CLUSTER,
    COPY_KINDS,
    COPY_MODES,
    ELEMENT_TYPES,
    GLOBAL,
    MBARRIER,
    MMA_KINDS,
    MMA_SPACES,
    NAMED,
    READ,
    SHARED,
    TMEM_KINDS,
    WAIT_KINDS,
    WRITE,
)
from sglab.events.tensor_memory.trace import TensorMemoryTrace

__all__ = [
    "CLUSTER",
    "COPY_KINDS",
    "COPY_MODES",
    "ELEMENT_TYPES",
    "GLOBAL",
    "MBARRIER",
    "MMA_KINDS",
    "MMA_SPACES",
    "NAMED",
    "READ",
    "SHARED",
    "TMEM_KINDS",
    "WAIT_KINDS",
    "WRITE",
    "EventLog",
]


class EventLog(RecordedLaunch):
    """A recorded launch: its columns, its warps' roles, its modelled time, and traces of its parts."""

    def cluster(self, index: int = 0) -> ClusterTrace:
        """What happened in one cluster: pipelines, operations, barriers.

        Args:
            index: among the grid's clusters; a launch without clusters has one CTA in each.
        """
        return ClusterTrace(self, index)

    def tensor_memory(self, ctas: Sequence[int] = (0,)) -> TensorMemoryTrace:
        """Who touches which cell of the tensor memory of one CTA, or of a pair by rank.

        Args:
            ctas: linear indices in the grid.
        """
        return TensorMemoryTrace(self, ctas)

    def shared_memory(self, cta: int = 0) -> SharedMemoryTrace:
        """Who touches which bytes of a CTA's shared memory.

        Args:
            cta: linear index in the grid.
        """
        return SharedMemoryTrace(self, cta)

    def __repr__(self) -> str:
        counts = {name: len(getattr(self, name).event) for name in ("accesses", "copies", "phases")}
        listed = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        return f"<EventLog of {self.kernel}: {len(self):,} instructions{', ' if listed else ''}{listed}>"
