"""Modelled beside measured times, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from calibration.cases import Case

from sglab.emulator import EmulatedDevice
from sglab.events.log import GLOBAL, WRITE, EventLog
from sglab.events.timing import Figure, Figures, figures_of

ARCH = "sm_90"
_ARTICLES = {"h200": "an H200", "sm_100": "a B200"}


@dataclass(frozen=True)
class Row:
    """us. cold: with the writing back of what the launch left in the L2 cache, which the measurement contains, too"""

    case: Case
    warm: float
    cold: float
    measured_warm: float
    measured_cold: float

    @property
    def warm_error(self) -> float:
        return self.warm / self.measured_warm - 1

    @property
    def cold_error(self) -> float:
        return self.cold / self.measured_cold - 1


def compare(case: Case, device: EmulatedDevice, measured: dict[str, Any]) -> Row:
    """Runs a case on the emulator and times it with the registers that the GPU's compiler gave it."""
    log = device.record(case.prepare(device).launch)
    warm = log.timed(ARCH, registers=measured["registers"])
    cold = log.timed(ARCH, "cold", measured["registers"])
    figures = warm.figures
    kept = min(1.0, figures["l2_capacity"] / max(cold.hbm_bytes, 1))  # what the L2 cache still holds at the end
    write_back = kept * written_bytes(log) / figures["hbm_rate"] / figures["clock"]
    return Row(case, warm.total_ns / 1e3, (cold.total_ns + write_back) / 1e3, measured["warm_us"], measured["cold_us"])


def written_bytes(log: EventLog) -> int:
    accesses, copies = log.accesses, log.copies
    stores = (accesses.space == GLOBAL) & (accesses.kind & WRITE != 0)
    out = np.isin(copies.kind, (1, 2, 4, 6))
    return int(accesses.nbytes[stores].sum()) + int(copies.nbytes[out].sum())


def table(rows: Sequence[Row]) -> str:
    """A launch per line; * marks those that no figure was fitted to."""
    lines = ["| Kernel | Launch | Measured, µs | Modelled, µs | Error | Cold: measured | modelled | error |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for row in rows:
        star = " *" if row.case.held_out else ""
        lines.append(
            f"| {row.case.kernel} | {row.case.shape}{star} | {row.measured_warm:.2f} | {row.warm:.2f} | "
            f"{row.warm_error:+.0%} | {row.measured_cold:.2f} | {row.cold:.2f} | {row.cold_error:+.0%} |"
        )
    return "\n".join(lines)


def families(rows: Sequence[Row]) -> str:
    """Mean absolute error by kernel."""
    lines = ["| Kernel | Mean error, fitted | held out (*) | largest | Cold: fitted | held out (*) | largest |"]
    lines.append("|---|---|---|---|---|---|---|")
    for kernel, group in groupby(rows, key=lambda row: row.case.kernel):
        lines.append(f"| {kernel} | {_means(list(group))} |")
    lines.append(f"| all | {_means(rows)} |")
    return "\n".join(lines)


def _means(rows: Sequence[Row]) -> str:
    cells = []
    for errors in ([abs(row.warm_error) for row in rows], [abs(row.cold_error) for row in rows]):
        for held_out in (False, True):
            part = [error for row, error in zip(rows, errors, strict=True) if row.case.held_out == held_out]
            cells.append(f"{np.mean(part):.0%}" if part else "–")
        cells.append(f"{max(errors):.0%}")
    return " | ".join(cells)


def figure_table(figures: Figures) -> str:
    lines = [f"| {figures.product} | Value | Source |", "|---|---|---|"]
    for row in figures.rows:
        lines.append(f"| {row.meaning} (`{row.name}`) | {_shown(row)} | {row.source} |")
    return "\n".join(lines)


def _shown(row: Figure) -> str:
    value = f"{row.value:,.0f}" if row.value >= 1000 else f"{row.value:g}"
    return f"{value} {row.unit}".strip()


def figure_tables() -> str:
    """Those of the H100, and what differs on an H200 and a B200."""
    hopper = figures_of("sm_90")
    parts = [figure_table(hopper)]
    for gpu in ("h200", "sm_100"):
        other = figures_of(gpu)
        assumed = {row.name for row in other.rows if row.source.startswith("assumed: as sm_90")}
        changed = tuple(row for row in other.rows if row.name not in assumed and row not in hopper.rows)
        listed = ", ".join(f"`{row.name}`" for row in other.rows if row.name in assumed)
        parts.append(f"Assumed as on the H100 on {_ARTICLES[gpu]}: {listed}. Otherwise:")
        parts.append(figure_table(Figures(other.arch, other.product, changed)))
    return "\n\n".join(parts)
