"""What a recorded launch shows on its own: its columns, its warps' roles, its modelled time."""

from __future__ import annotations

from functools import cached_property

from sglab.events.columns import EventColumns
from sglab.events.roles import Roles
from sglab.events.timing.timed import TimedLog, timed


class RecordedLaunch(EventColumns):
    """Columns, with what they show of warps' roles and, on a model of a GPU, of time. An EventLog is one."""

    @cached_property
    def roles(self) -> Roles:
        """What each warp does, and names for the barriers."""
        return Roles(self)

    def timed(self, arch: str, l2: str = "warm", registers: int | None = None) -> TimedLog:
        """The launch on a model of a GPU: modelled times for every event and every asynchronous operation, in ns.

        Args:
            arch: sm_90 (H100 SXM) or sm_100 (B200), with or without a suffix; h200 for an H200's figures.
            l2: "warm": the launch before has just touched the same memory; "cold": the L2 cache holds none of it.
            registers: 32-bit registers per thread, which decide how many CTAs an SM holds; None: an estimate.

        Raises:
            LaunchError: no figures for `arch`, the log has no details, or another argument is wrong.
        """
        return timed(self, arch, l2, registers)
