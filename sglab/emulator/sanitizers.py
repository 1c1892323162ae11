"""The sanitizers of an emulated launch: which there are, and what they have found, read from the compiled core."""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Collection
from types import FrameType

from sglab.events.cast import Cast
from sglab.events.cluster.columns import readable
from sglab.gpu import core
from sglab.gpu.device import Launch
from sglab.gpu.errors import LaunchError, LaunchWarning
from sglab.gpu.findings import Finding, Party

DETECTORS = ("memory", "races", "tensor", "barriers")


def chosen(sanitize: bool | Collection[str]) -> tuple[str, ...]:
    """The detectors that EmulatedDevice(sanitize=...) names.

    Raises:
        LaunchError: it names none, or one that does not exist.
    """
    if isinstance(sanitize, bool):
        return DETECTORS if sanitize else ()
    expected = f"EmulatedDevice: sanitize must be True, False or some of {', '.join(DETECTORS)}"
    if not isinstance(sanitize, (str, list, tuple, set, frozenset)):
        raise LaunchError(f"{expected}; got {type(sanitize).__name__}")
    names = [sanitize] if isinstance(sanitize, str) else list(sanitize)
    unknown = [str(name) for name in names if name not in DETECTORS]
    if unknown:
        raise LaunchError(f"{expected}; got {', '.join(sorted(unknown))}")
    return tuple(name for name in DETECTORS if name in names)


def read_findings(
    sanitizer: core.Sanitizer, launch: Launch, before: int | None = None, cast: Cast | None = None
) -> tuple[Finding, ...]:
    """The findings that a compiled-core sanitizer holds of a launch, in the order in which they were made.

    Args:
        before: only those of the first so many instructions.
        cast: names warps' roles and barriers.
    """
    return _read(sanitizer.findings(), launch, before, cast)


def read_warnings(report: core.LaunchReport, launch: Launch, cast: Cast | None = None) -> tuple[Finding, ...]:
    """The warnings of a launch without sanitizers; the first of each kind is given as a LaunchWarning, too, at the line
    outside of sglab that launched."""
    found = _read(report.warnings, launch, None, cast)
    if not found:
        return found
    kinds = Counter(each.kind for each in found)
    for kind, count in kinds.items():
        first = next(each for each in found if each.kind == kind)
        places = "place" if count == 2 else "places"
        others = f"\n  and at {count - 1} more {places}; LaunchReport.findings has all" if count > 1 else ""
        warnings.warn(f"{readable(first.kernel)}: {first}{others}", LaunchWarning, stacklevel=_outside())
    return found


def _outside() -> int:
    """The stack level, as warnings.warn counts for its caller, of the first function outside of sglab."""
    level = 0
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "sglab":
        level, frame = level + 1, frame.f_back
    return level + 1


def _read(rows: list[core.Row], launch: Launch, before: int | None, cast: Cast | None) -> tuple[Finding, ...]:
    found = []
    for row in rows:
        detector, kind, message, error, at, other, did, space, address, nbytes, positions, count = row
        if before is not None:
            if count == len(positions) or positions[-1] >= before:
                count = sum(position < before for position in positions)
            if count == 0:
                continue
        severity = "error" if error else "warning"
        parties = (_party(at, launch, cast), _party(other, launch, cast))
        name = launch.kernel.name
        barrier = ""
        if cast is not None and parties[0] is not None:
            message = cast.annotated(message, parties[0].cta)
            barrier = cast.mbarrier(parties[0].cta, address) if kind.startswith("mbarrier") else ""
        memory = (space, address, nbytes)
        found.append(
            Finding(detector, kind, message, severity, name, *parties, did, *memory, count, positions[0], barrier)
        )
    return tuple(found)


def _party(row: core.Row | None, launch: Launch, cast: Cast | None) -> Party | None:
    if row is None:
        return None
    cta, warp, lanes, pc, position, asynchronous = row
    index = launch.geometry.coordinates(cta)
    instruction = launch.kernel.code[pc] if pc >= 0 else None
    role = cast.role(index, warp) if cast is not None and cast.several() else ""
    return Party(index, warp, lanes, instruction, position, asynchronous, role)
