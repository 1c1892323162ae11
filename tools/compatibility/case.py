"""What the table is made of: a case is a kernel with inputs and a reference, a row is what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from sglab.emulator.device import Scheduler
    from tools.compatibility.meter import Meter

Result = Literal["right", "wrong", "refused", "failed"]
FLOAT64 = "float64"


@dataclass(frozen=True)
class Check:
    """One output beside what it should be.

    Attributes:
        got: a tensor.
        expected: of the same shape, computed by something else than the kernel, in float64 where it holds floats.
        rtol, atol: how far they may be apart; 0 and 0 for what must be equal.
    """

    got: Any
    expected: Any
    rtol: float = 0.0
    atol: float = 0.0


class RefusedError(Exception):
    """A case cannot be run; the text says why."""


@dataclass(frozen=True)
class Case:
    """A kernel at a size and a dtype.

    Attributes:
        kernel: as its project names it, with what distinguishes this case from the others of that kernel.
        run: launches it through the meter and returns what is to be checked.
        arch: the GPU that is emulated.
        reference: what `run` compares with.
        scheduler: the order of warps: another one for a kernel with a race that GPUs decide in its favour.
    """

    kernel: str
    run: Callable[[Meter], list[Check]]
    arch: str = "sm_100a"
    reference: str = FLOAT64
    scheduler: Scheduler = "fair"


@dataclass(frozen=True)
class Row:
    """What came of a case.

    Attributes:
        result: right; wrong; refused, before anything ran; failed, while it ran.
        message: of a case that is not right, why.
        worst: the largest error in units of what is tolerated; above 1 is wrong.
        launches, warp_instructions, seconds: of the run without sanitizers, on one thread.
        findings: of the run with sanitizers: kind to how many; None where that run was not finished.
    """

    family: str
    kernel: str
    version: str
    arch: str
    result: Result
    reference: str = FLOAT64
    message: str = ""
    worst: float | None = None
    launches: int = 0
    warp_instructions: int = 0
    seconds: float = 0.0
    findings: Mapping[str, int] | None = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Warp-instructions per second."""
        return self.warp_instructions / self.seconds if self.seconds else 0.0
