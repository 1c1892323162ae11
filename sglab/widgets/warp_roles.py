"""WarpRoles: a timeline of every warp of a CTA pair, what runs beside them, and who waits for whom."""

from __future__ import annotations

import re

from sglab.gpu.captures import Capture, CapturedLaunch
from sglab.gpu.errors import LaunchError
from sglab.gpu.events import EventLog
from sglab.gpu.session import Session
from sglab.gpu.timing import TimedLog

from .base import asset
from .launch_view import LaunchWidget


class WarpRoles(LaunchWidget):
    """Every warp of one cluster of a recorded launch on a timeline, with copies, matrix products, tensor memory, waits
    and the pipelines between roles.

    launch: what `sglab.trace` or `Kernel.record` returns; or a session, which the widget then moves and follows. If its
        kernel fails, what happened until then is shown.
    arch: whose modelled clock the reader may switch to: "sm_90" (H100), "sm_100" (B200); None takes the one that the
        PTX was compiled for, and where the model knows none, issue order is all there is.
    cluster: which of the grid's clusters (CTA pairs, or CTAs where the launch has no clusters).

    Raises:
        TypeError, ValueError: naming the argument.
    """

    bundle = "warp_roles"
    format = 1
    title = "Warp roles"
    _esm = asset("warp_roles.js")
    _css = asset("warp_roles.css")

    def __init__(
        self, launch: EventLog | Session | Capture | CapturedLaunch, cluster: int = 0, *, arch: str | None = None
    ) -> None:
        self._arch = arch
        super().__init__(launch, cluster)

    def _model(self, log: EventLog) -> TimedLog | None:
        if self._arch is not None:
            return log.timed(self._arch)
        target = _target(log)
        try:
            return log.timed(target) if target else None
        except LaunchError:
            return None


HEADER_LINES = 64


def _target(log: EventLog) -> str | None:
    """What the PTX was compiled for, such as sm_100a."""
    for line in range(1, HEADER_LINES):
        found = re.match(r"\.target\s+(sm_\w+)", log.code.text(line))
        if found:
            return found[1]
    return None
