"""Modelled counters and stalls of a launch beside those of ncu's report, and what explains a difference."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

import numpy as np

from sglab.events.columns import EventColumns
from sglab.events.tables import GLOBAL, READ, SHARED, WRITE
from sglab.events.timing.figures import Figures
from sglab.events.timing.ncu_report import ProfiledLaunch, launch_of
from sglab.events.timing.tables import access_columns
from sglab.gpu.errors import LaunchError

_LSU = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
# Each counter: the metrics whose sum it is in a report. What the log counts and what only the model has.
_COUNTED = {
    "load requests": (_LSU.format("requests", "ld"),),
    "sectors loaded": (_LSU.format("sectors", "ld"),),
    "store requests": (_LSU.format("requests", "st"),),
    "sectors stored": (_LSU.format("sectors", "st"),),
    "sectors of atomics": (_LSU.format("sectors", "atom"), _LSU.format("sectors", "red")),
    "shared-memory wavefronts": ("memory_l1_wavefronts_shared",),
    "of these, by bank conflicts": ("derived__memory_l1_wavefronts_shared_excessive",),
}
_MODELLED = {
    "warp instructions": ("smsp__inst_executed.sum",),
    "sectors through L2": tuple(
        f"lts__t_sectors_srcunit_tex_op_{kind}.sum" for kind in ("read", "write", "red", "atom")
    ),
    "sectors of memory": ("dram__sectors_read.sum", "dram__sectors_write.sum"),
    "duration, ns": ("gpu__time_duration.sum",),
}
# ncu's stall reasons by the model's; those that the model does not have under names of their own.
_REASONS = {
    "issue slot": ("not_selected",),
    "unit": ("math_pipe_throttle", "mio_throttle", "lg_throttle", "tex_throttle"),
    "arithmetic": ("wait", "dispatch_stall"),
    "shared memory": ("short_scoreboard",),
    "global memory, copies": ("long_scoreboard",),
    "tensor core": ("gmma",),
    "barrier": ("barrier",),
    "fence": ("membar",),
    "instruction fetch": ("no_instruction", "branch_resolving"),
    "constants": ("imc_miss",),
    "stores at the end": ("drain",),
}
_ALSO = {"global memory": "global memory, copies", "copy": "global memory, copies", "mbarrier": "barrier"}
_STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


class Timed(Protocol):
    """What is read of a TimedLog."""

    @property
    def log(self) -> EventColumns: ...
    @property
    def issue_slots(self) -> float: ...
    @property
    def l2_bytes(self) -> float: ...
    @property
    def hbm_bytes(self) -> float: ...
    @property
    def total_ns(self) -> float: ...
    @property
    def figures(self) -> Figures: ...
    def stall_ns(self) -> dict[str, float]: ...


@dataclass(frozen=True)
class Compared:
    """A counter, or the cycles per warp of a stall. measured: None without a report"""

    name: str
    modelled: float
    measured: float | None

    @property
    def ratio(self) -> float | None:
        """modelled / measured; None where that has no value."""
        return self.modelled / self.measured if self.measured else None


@dataclass(frozen=True)
class Explanation:
    """What a modelled time is made of, beside a report where one was given.

    Attributes:
        counters: of the launch. Requests, sectors and wavefronts are counted from the addresses of the lanes.
        stalls: cycles that a warp waited, a mean over warps.
        cause: a sentence: the stall that explains the difference to the report, or the largest one.
    """

    kernel: str
    counters: tuple[Compared, ...]
    stalls: tuple[Compared, ...]
    cause: str

    def __str__(self) -> str:
        lines = [f"{self.kernel:32}{'modelled':>14}{'ncu':>14}{'ratio':>8}"]
        lines += [_line(row) for row in self.counters]
        lines += ["stalls, cycles per warp", *(_line(row) for row in self.stalls), self.cause]
        return "\n".join(lines)


def _line(row: Compared) -> str:
    measured = "" if row.measured is None else f"{row.measured:,.0f}"
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return f"  {row.name:30}{row.modelled:14,.0f}{measured:>14}{ratio:>8}"


def counted(log: EventColumns) -> dict[str, int]:
    """What the lanes' addresses make of a launch: requests, sectors and wavefronts, summed over warp-instructions.

    Args:
        log: recorded with details.
    """
    rows = log.accesses
    sectors = access_columns(rows, log.allocations)["sectors"]
    in_global, shared = rows.space == GLOBAL, rows.space == SHARED
    loads, stores, both = (in_global & (rows.kind == kind) for kind in (READ, WRITE, READ | WRITE))
    wavefronts = rows.wavefronts[shared].astype(np.int64)
    least = np.maximum(-(-rows.nbytes[shared].astype(np.int64) // 128), 1)
    sums = (
        loads.sum(),
        sectors[loads].sum(dtype=np.int64),
        stores.sum(),
        sectors[stores].sum(dtype=np.int64),
        sectors[both].sum(dtype=np.int64),
        wavefronts.sum(),
        np.maximum(wavefronts - least, 0).sum(),
    )
    return dict(zip(_COUNTED, map(int, sums), strict=True))


def explain(timed: Timed, report: str | os.PathLike[str] | None, index: int) -> Explanation:
    """See TimedLog.explain."""
    log = timed.log
    profiled = None if report is None else launch_of(report, log.kernel, index)
    if profiled is not None:
        _check_geometry(profiled, log)
    values = {
        "warp instructions": timed.issue_slots,
        **counted(log),
        "sectors through L2": timed.l2_bytes / 32,
        "sectors of memory": timed.hbm_bytes / 32,
        "duration, ns": timed.total_ns,
    }
    metrics = {**_MODELLED, **_COUNTED}
    counters = tuple(Compared(name, value, _sum(profiled, metrics[name])) for name, value in values.items())
    warps = log.geometry.ctas * -(-prod(log.geometry.block) // 32)
    stalls = _stalls(timed, profiled, warps)
    return Explanation(log.kernel, counters, stalls, _cause(counters[-1], stalls))


def _sum(profiled: ProfiledLaunch | None, metrics: Sequence[str]) -> float | None:
    return None if profiled is None else sum(profiled.value(metric) for metric in metrics)


def _stalls(timed: Timed, profiled: ProfiledLaunch | None, warps: int) -> tuple[Compared, ...]:
    modelled: dict[str, float] = {}
    for name, ns in timed.stall_ns().items():
        own = _ALSO.get(name, name)
        modelled[own] = modelled.get(own, 0) + ns * timed.figures["clock"] / warps
    rows = []
    for name, reasons in _REASONS.items():
        measured = None
        if profiled is not None:
            per_warp = profiled.value(_MODELLED["warp instructions"][0]) / warps
            measured = per_warp * sum(profiled.value(_STALLED.format(reason)) for reason in reasons)
        if modelled.get(name) or measured:
            rows.append(Compared(name, modelled.pop(name, 0.0), measured))
    rows += [
        Compared(name, value, None if profiled is None else 0.0) for name, value in modelled.items() if name != "none"
    ]
    return tuple(sorted(rows, key=lambda row: -max(row.modelled, row.measured or 0)))


def _cause(duration: Compared, stalls: tuple[Compared, ...]) -> str:
    if not stalls:
        return "No warp waited."
    if duration.measured is None or duration.ratio is None:
        return f"Warps wait most for: {stalls[0].name} ({stalls[0].modelled:,.0f} cycles per warp)."
    short = duration.ratio < 1
    by = max(stalls, key=lambda row: ((row.measured or 0) - row.modelled) * (1 if short else -1))
    cycles = abs((by.measured or 0) - by.modelled)
    return (
        f"Modelled {duration.ratio:.2f} × the time of the report. What would explain it: {by.name}, "
        f"{cycles:,.0f} cycles per warp {'more' if short else 'less'} in the report."
    )


def _check_geometry(profiled: ProfiledLaunch, log: EventColumns) -> None:
    for name, theirs, own in (
        ("grid", profiled.grid, log.geometry.grid),
        ("block", profiled.block, log.geometry.block),
    ):
        if prod(theirs) != prod(own):
            raise LaunchError(
                f"report {profiled.path}: {profiled.kernel} ran there with the {name} {theirs}; this launch has "
                f"{tuple(own)}. Profile the same launch, or name another one by index"
            )
