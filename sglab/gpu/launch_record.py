"""What one launch of a Triton kernel was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Route = Literal["cuda", "emulator", "interpreter"]
ROUTES: tuple[Route, ...] = ("cuda", "emulator", "interpreter")


@dataclass(frozen=True)
class LaunchRecord:
    """Which machine ran a launch, and why that one.

    Attributes:
        kernel: name of the Python function.
        route: cuda (the GPU), emulator (compiled PTX on the CPU), interpreter (Triton's own, in Python).
        reason: one sentence saying why this route was taken.
        grid: programs along x, y, z.
        report: the emulator's LaunchReport on the emulator route, Triton's compiled kernel on the cuda route, else
            None.
    """

    kernel: str
    route: Route
    reason: str
    grid: tuple[int, int, int]
    report: Any = None
