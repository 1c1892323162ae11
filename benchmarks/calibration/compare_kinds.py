"""Modelled beside measured times of the kernels of kinds.py by kind: those that were fitted, and the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from calibration.kinds import KERNELS, KINDS, NEVER_FITTED, Kernel

from sglab.emulator import EmulatedDevice

ARCH = "sm_90"
GPUS = {"NVIDIA H200": "h200"}  # by what was measured; others have the figures of ARCH


@dataclass(frozen=True)
class Row:
    """us. stall: what holds the model's warps up most"""

    kernel: Kernel
    ctas: int
    modelled: float
    measured: float
    stall: str

    @property
    def error(self) -> float:
        return self.modelled / self.measured - 1


def compare(kernel: Kernel, ctas: int, device: EmulatedDevice, measured: dict[str, Any], gpu: str = ARCH) -> Row:
    timed = device.record(kernel.prepare(device, ctas).launch).timed(gpu, registers=measured["registers"])
    stalls = timed.stall_ns()
    return Row(kernel, ctas, timed.total_ns / 1e3, measured["warm_us"], max(stalls, key=lambda name: stalls[name]))


def rows(device: EmulatedDevice, measured: dict[str, Any]) -> list[Row]:
    """Of every launch that was measured, by the figures of the GPU that ran it."""
    by_name = {kernel.name: kernel for kernel in KERNELS}
    gpu = GPUS.get(measured.get("device", ""), ARCH)
    return [compare(by_name[one["kernel"]], one["ctas"], device, one, gpu) for one in measured["launches"]]


def table(compared: Sequence[Row]) -> str:
    """By kind; * marks those that nothing was fitted to. Of the largest error, the kernel, its grid and its stall."""
    lines = [
        "| Kind | Kernels | Mean error | Largest | of | Model's largest stall there |",
        "|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        own = [row for row in compared if row.kernel.kind == kind]
        if own:
            lines.append(_line(f"{kind}{' *' if kind in NEVER_FITTED else ''}", own))
    for name, fitted in (("all fitted kinds", True), ("all others *", False)):
        part = [row for row in compared if (row.kernel.kind not in NEVER_FITTED) == fitted]
        if part:
            lines.append(_line(name, part))
    return "\n".join(lines)


def _line(name: str, own: Sequence[Row]) -> str:
    worst = max(own, key=lambda row: abs(row.error))
    kernels = len({row.kernel.name for row in own})
    mean = np.mean([abs(row.error) for row in own])
    of = f"{worst.kernel.name}, {worst.ctas} CTAs"
    return f"| {name} | {kernels} | {mean:.0%} | {worst.error:+.0%} | {of} | {worst.stall} |"
