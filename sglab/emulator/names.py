"""What warps and barriers are called: their roles in the launch, where its events show it."""

from __future__ import annotations

from sglab.emulator.session import Session
from sglab.events.log import MBARRIER, NAMED
from sglab.gpu import GpuError

MOST_EVENTS = 4_000_000
"""Longer launches are not recorded for their roles: that would take seconds."""


class Names:
    """Roles by (CTA, warp); names of mbarriers and named barriers by (CTA, number or offset)."""

    def __init__(self) -> None:
        self.roles: dict[tuple[int, int], str] = {}
        self.mbarriers: dict[tuple[int, int], str] = {}
        self.barriers: dict[tuple[int, int], str] = {}
        self.known = True
        """False while the launch's end is not known: there may be names later."""

    @classmethod
    def of(cls, session: Session, length: int, complete: bool) -> Names:
        """Empty where the launch is too long, or cannot be recorded."""
        names = cls()
        if not (complete or session.recorded) or length > MOST_EVENTS:
            names.known = complete
            return names
        try:
            roles = session.roles
        except GpuError:
            return names
        names.roles = {place: role.name.replace(" ", "_") for place, role in roles}
        if len(set(names.roles.values()) - {"idle"}) < 2:
            names.roles = {}  # they all do the same: nothing to distinguish
        for barrier in roles.barriers:
            if barrier.kind == MBARRIER:
                names.mbarriers[barrier.cta, barrier.object & 0xFFFFFF] = barrier.name
            elif barrier.kind == NAMED:
                names.barriers[barrier.cta, barrier.object] = barrier.name
        return names
