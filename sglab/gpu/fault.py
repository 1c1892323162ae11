"""A kernel that started and failed: where, why, and who waited for whom."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sglab.gpu import core
from sglab.gpu.errors import GpuError
from sglab.gpu.findings import Finding


@dataclass(frozen=True)
class Wait:
    """One party of a deadlock: who waits, at which line, for what, and who was to end that.

    Attributes:
        kind: mbarrier, barrier, cluster_barrier, lanes, wgmma or tensor_memory.
        object: the mbarrier's shared address, the barrier's number, a mask of lanes.
        phase: that is waited for; of an mbarrier, its parity.
        waits: the same in words.
        role: what the warp does in the launch (Role.name).
        barrier: the name of the barrier; empty where unknown.
        next: index in the cycle of the party that was to end the wait, by the instruction on `next_line` of the PTX;
            None if there is none.
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

    Attributes:
        kind: trap, out_of_bounds, misaligned, deadlock, livelock, …: a word that programs can test.
        cta: along x, y, z.
        warp, lane: within it, -1 where the fault belongs to none in particular.
        ptx_line, source_file, source_line: of the instruction; 0 and "" where unknown.
        cycle: of a deadlock, who waits for whom: a circle, or a chain that ends where no party is left.
        role: what the warp does in the launch (Role.name); empty where unknown.
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
    def of(cls, error: core.LaunchError) -> Fault:
        """The same, as the compiled core reports it: no role is known; see Cast.fault."""
        reported = {field.name for field in fields(cls)} - {"cycle", "role"}
        cycle = tuple(Wait(*row) for row in error.cycle)
        return cls(**{name: getattr(error, name) for name in reported}, cycle=cycle)


class KernelError(GpuError, RuntimeError):
    """A kernel started and failed: a trap, an access outside its tensors, a deadlock.

    Args:
        fault: where and why, if the device knows; a GPU cannot.
        findings: of an emulated device's sanitizers, the failure among them.
    """

    def __init__(self, message: str, fault: Fault | None = None, findings: tuple[Finding, ...] = ()) -> None:
        super().__init__(message)
        self.fault, self.findings = fault, findings

    @property
    def cycle(self) -> tuple[Wait, ...]:
        """Of a deadlock on an emulated device, who waits for whom; see Fault."""
        return self.fault.cycle if self.fault else ()
