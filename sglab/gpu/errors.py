"""What can go wrong between a Python call and a running kernel."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sglab.gpu.cast import Cast
    from sglab.gpu.findings import Finding


class GpuError(Exception):
    """Base of every error this package raises on purpose."""


class LaunchError(GpuError, ValueError):
    """A launch was refused before anything ran: an argument, a dimension or a device does not fit."""


@dataclass(frozen=True)
class Wait:
    """One party of a deadlock: who waits, at which line, for what, and who was to end that.

    kind: mbarrier, barrier, cluster_barrier, lanes, wgmma or tensor_memory
    object: the mbarrier's shared address, the barrier's number, a mask of lanes
    phase: that is waited for; of an mbarrier, its parity
    waits: the same in words
    role: what the warp does in the launch (Role.name); barrier: the name of the barrier; empty where unknown
    next: index in the cycle of the party that was to end the wait, by the instruction on `next_line` of the PTX; None
        if nobody is left
    """

    cta: tuple[int, int, int]
    warp: int
    lanes: int
    ptx_line: int
    source_file: str
    source_line: int
    kind: str
    object: int
    phase: int
    waits: str
    next: int | None
    next_line: int
    role: str = ""
    barrier: str = ""


@dataclass(frozen=True)
class Fault:
    """Where and why a kernel failed.

    kind: trap, out_of_bounds, misaligned, deadlock, livelock, …: a word that programs can test
    cta: along x, y, z; warp, lane: within it, -1 where the fault is nobody's in particular
    ptx_line, source_file, source_line: of the instruction; 0 and "" where unknown
    cycle: of a deadlock, who waits for whom: a circle, or a chain at whose end nobody is left
    role: what the warp does in the launch (Role.name); empty where unknown
    """

    kind: str
    kernel: str
    cta: tuple[int, int, int]
    warp: int
    lane: int
    ptx_line: int
    source_file: str
    source_line: int
    cycle: tuple[Wait, ...] = ()
    role: str = ""

    @classmethod
    def of(cls, error: Exception, cast: Cast | None = None) -> Fault:
        """The same, as the compiled core's LaunchError tells it. cast: names warps' roles and barriers."""
        values = {place.name: getattr(error, place.name) for place in fields(cls) if place.name != "role"}
        waits = [Wait(*row) for row in values["cycle"]]
        values["cycle"] = tuple(waits if cast is None else (_named(wait, cast) for wait in waits))
        role = "" if cast is None or values["warp"] < 0 else cast.role(values["cta"], values["warp"])
        return cls(**values, role=role)


def _named(wait: Wait, cast: Cast) -> Wait:
    name = ""
    if wait.kind == "mbarrier":
        name = cast.mbarrier(wait.cta, wait.object)
    elif wait.kind == "barrier":
        name = cast.barrier(wait.cta, wait.object)
    waits = cast.annotated(wait.waits, wait.cta)
    return replace(wait, waits=waits, role=cast.role(wait.cta, wait.warp), barrier=name)


class SessionError(GpuError, ValueError):
    """A session was asked for what is not there: a line without code, a CTA that is not running, a position behind the
    end."""


class KernelError(GpuError, RuntimeError):
    """A kernel started and failed: a trap, an access outside its tensors, a deadlock.

    fault: where and why, if the device can tell; a GPU cannot
    findings: of an emulated device's sanitizers, the failure among them
    """

    def __init__(self, message: str, fault: Fault | None = None, findings: tuple[Finding, ...] = ()) -> None:
        super().__init__(message)
        self.fault, self.findings = fault, findings

    @property
    def cycle(self) -> tuple[Wait, ...]:
        """Of a deadlock on an emulated device, who waits for whom; see Fault."""
        return self.fault.cycle if self.fault else ()


class CompileError(GpuError):
    """A compiler refused the source; the message holds what it said."""


class MissingDependencyError(GpuError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


def missing(package: str, extra: str, purpose: str) -> MissingDependencyError:
    return MissingDependencyError(f"{purpose} needs the package '{package}': pip install 'sglab[{extra}]'")
