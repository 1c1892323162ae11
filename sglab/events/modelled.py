"""The modelled clock that a recorded launch can be shown over."""

from __future__ import annotations

import re

from sglab.events.log import EventLog
from sglab.events.timing import TimedLog
from sglab.gpu.errors import LaunchError

HEADER_LINES = 64


def modelled(log: EventLog, arch: str | None) -> TimedLog | None:
    """The launch on a modelled GPU; None where it failed, or where none was requested and the model knows none.

    Raises:
        LaunchError: the requested `arch` cannot be modelled.
    """
    if log.fault:
        return None
    if arch is not None:
        return log.timed(arch)
    compiled_for = target(log)
    try:
        return log.timed(compiled_for) if compiled_for else None
    except LaunchError:
        return None


def target(log: EventLog) -> str | None:
    """What the PTX was compiled for, such as sm_100a."""
    for line in range(1, HEADER_LINES):
        found = re.match(r"\.target\s+(sm_\w+)", log.code.text(line))
        if found:
            return found[1]
    return None
