"""The events of a recorded launch, as columns."""

from __future__ import annotations

from functools import cached_property

from sglab.events.columns import EventColumns
from sglab.events.roles import Roles
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
from sglab.events.timing.timed import TimedLog, timed

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


class EventLog(EventColumns):
    """A recorded launch: its columns, and what they show of its warps' roles and, on a model of a GPU, of its time."""

    @cached_property
    def roles(self) -> Roles:
        """What each warp does, and names for the barriers."""
        return Roles(self)

    def timed(self, arch: str, l2: str = "warm", registers: int | None = None) -> TimedLog:
        """The launch on a model of a GPU: modelled times for every event and every asynchronous operation, in ns.

        Args:
            arch: sm_90 (H100 SXM) or sm_100 (B200), with or without a suffix.
            l2: "warm": the launch before has just touched the same memory; "cold": the L2 cache holds none of it.
            registers: 32-bit registers per thread, which decide how many CTAs an SM holds; None: an estimate.

        Raises:
            LaunchError: no figures for `arch`, the log has no details, or another argument is wrong.
        """
        return timed(self, arch, l2, registers)

    def __repr__(self) -> str:
        counts = {name: len(getattr(self, name).event) for name in ("accesses", "copies", "phases")}
        listed = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return f"<EventLog of {self.kernel}: {len(self)} instructions{', ' if listed else ''}{listed}>"
