"""What the sanitizers of an emulated launch have found."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sglab.gpu.code import Instruction
from sglab.gpu.errors import LaunchError

if TYPE_CHECKING:
    from sglab.gpu.cast import Cast
    from sglab.gpu.device import Launch

DETECTORS = ("memory", "races", "tensor", "barriers")


@dataclass(frozen=True)
class Party:
    """Somebody who takes part in a finding.

    cta: along x, y, z; warp: in the CTA; lanes: a mask, 0 where no lane in particular is meant
    instruction: None where no instruction in particular is meant
    position: warp-instructions of the launch executed before
    asynchronous: not the instruction itself but the operation that it had issued (a TMA copy, an MMA)
    role: what the warp does in the launch (Role.name), where warps have different roles
    """

    cta: tuple[int, int, int]
    warp: int
    lanes: int
    instruction: Instruction | None
    position: int
    asynchronous: bool = False
    role: str = ""

    @property
    def ptx_line(self) -> int:
        """0 where no instruction is meant."""
        return self.instruction.ptx_line if self.instruction else 0

    @property
    def source(self) -> tuple[str, int] | None:
        """File and line, if the PTX was compiled with line information."""
        return self.instruction.source if self.instruction else None

    def __str__(self) -> str:
        who = f"CTA {self.cta} warp {self.warp}" + (f" ({self.role})" if self.role else "")
        who += f" {_lanes(self.lanes)}" if self.lanes else ""
        if self.instruction is None:
            return who
        what = "the operation issued at " if self.asynchronous else "at "
        source = f", {self.source[0]}:{self.source[1]}" if self.source else ""
        return f"{who}, {what}PTX line {self.ptx_line} `{self.instruction.text}`{source}"


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with a launch. The same kind at the same instructions is one finding.

    detector: memory, races, tensor or barriers; launch for a fault that ended the launch
    kind: a word that programs can test, such as uninitialised_read
    message: what is wrong; severity: error, or warning for what is legal but hardly meant
    at: who did it, the first time; None for a fault that is nobody's in particular
    other, other_did: the other party, such as the writer in a race, and what it did
    space, address, nbytes: the memory in question; shared: rank of the CTA << 24 | offset; tensor: rank << 32 |
        lane << 16 | column
    barrier: the name of the mbarrier in question, where it has one
    count: how often it happened
    position: warp-instructions of the launch executed when it was found first
    """

    detector: str
    kind: str
    message: str
    severity: str
    kernel: str
    at: Party | None
    other: Party | None
    other_did: str
    space: str
    address: int
    nbytes: int
    count: int
    position: int
    barrier: str = ""

    @property
    def warp(self) -> int:
        """-1 for a fault that is no warp's in particular."""
        return self.at.warp if self.at else -1

    @property
    def ptx_line(self) -> int:
        return self.at.ptx_line if self.at else 0

    @property
    def source(self) -> tuple[str, int] | None:
        return self.at.source if self.at else None

    def __str__(self) -> str:
        parts = [f"{self.severity}: {self.kind}: {self.message}"]
        if self.at is not None:
            parts.append(f"  {self.at}")
        if self.other is not None:
            parts.append(f"  {self.other_did}: {self.other}" if self.other_did else f"  other party: {self.other}")
        if self.count > 1:
            parts.append(f"  {self.count} times")
        return "\n".join(parts)


def chosen(sanitize: bool | Collection[str]) -> tuple[str, ...]:
    """The detectors that EmulatedDevice(sanitize=...) names.

    raises LaunchError: one of them does not exist
    """
    if isinstance(sanitize, bool):
        return DETECTORS if sanitize else ()
    names = {sanitize} if isinstance(sanitize, str) else set(sanitize)
    unknown = sorted(names - set(DETECTORS))
    if unknown:
        raise LaunchError(
            f"EmulatedDevice: sanitize must be True, False or some of {', '.join(DETECTORS)}; got {', '.join(unknown)}"
        )
    return tuple(name for name in DETECTORS if name in names)


def read_findings(
    sanitizer: Any, launch: Launch, before: int | None = None, cast: Cast | None = None
) -> tuple[Finding, ...]:
    """The findings that a compiled-core sanitizer holds of a launch, in the order in which they were made.

    before: only those of the first so many instructions
    cast: names warps' roles and barriers
    """
    found = []
    for row in sanitizer.findings():
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


def _party(row: Any, launch: Launch, cast: Cast | None) -> Party | None:
    if row is None:
        return None
    cta, warp, lanes, pc, position, asynchronous = row
    x, y, _ = launch.geometry.grid
    index = (cta % x, cta // x % y, cta // (x * y))
    instruction = launch.kernel.code[pc] if pc >= 0 else None
    role = cast.role(index, warp) if cast is not None and cast.several() else ""
    return Party(index, warp, lanes, instruction, position, asynchronous, role)


def _lanes(mask: int) -> str:
    """ "lane 3", "lanes 0-15, 31"."""
    runs: list[list[int]] = []
    for lane in (lane for lane in range(32) if mask >> lane & 1):
        if runs and runs[-1][1] == lane - 1:
            runs[-1][1] = lane
        else:
            runs.append([lane, lane])
    text = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return ("lane " if mask.bit_count() == 1 else "lanes ") + text
