"""Points of a roofline: some work, where its counts come from, and how long it took where something says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from sglab.emulator.captures import Capture, CapturedLaunch
from sglab.events import EventLog
from sglab.events.cluster.columns import readable
from sglab.events.modelled import target
from sglab.gpu.architecture import Architecture
from sglab.gpu.errors import LaunchError
from sglab.roofline.counting import count, flops_of
from sglab.roofline.machines import MACHINES
from sglab.roofline.work import Work

Origin = Literal["arithmetic", "emulated", "modelled", "measured"]
ORIGINS: dict[Origin, str] = {
    "arithmetic": "counted from shapes: what cannot be done without",
    "emulated": "counted from the event log of a run on the emulator, which has no time",
    "modelled": "the same counts, with the timing model's time",
    "measured": "timed on a GPU",
}
"""Where a point comes from."""
_TIMED = ("modelled", "measured")


@dataclass(frozen=True)
class Point:
    """One mark on a roofline.

    Attributes:
        label: what was run.
        origin: a key of ORIGINS.
        seconds: how long it took, where the origin has a time.
        machine: on which; a name of MACHINES where its roofs are known.
        series: points of one name belong together, as those of a sweep.
        how: a sentence on how counts and time were obtained.
    """

    label: str
    work: Work
    origin: Origin
    seconds: float | None = None
    machine: str = ""
    series: str = ""
    how: str = ""

    def __post_init__(self) -> None:
        if self.origin not in get_args(Origin):
            raise ValueError(f"origin: expected one of {', '.join(ORIGINS)}; got {self.origin!r}")
        timed = self.origin in _TIMED
        if timed and not (self.seconds is not None and self.seconds > 0 and self.machine):
            raise ValueError(f"a {self.origin} point needs seconds above 0 and the machine; got {self}")
        if not timed and (self.seconds is not None or self.machine):
            raise ValueError(f"an {self.origin} point has no time of any machine; got {self}")


def recorded_points(log: EventLog, label: str = "", series: str = "") -> list[Point]:
    """A recorded launch as points: its counts, and its modelled time on each machine that runs it and has a model.

    The L2 cache is modelled cold, as the counted bytes assume.

    Raises:
        ValueError: the log has no FLOPs or no bytes.
    """
    work = count(log)
    if not any(work.flops.values()):
        raise ValueError(f"log: {log.kernel} has no FLOPs, so it has no place on a roofline")
    label = label or readable(log.kernel)
    how = f"{len(log):,} warp-instructions were executed and counted."
    points = [Point(label, work, "emulated", series=series, how=how)]
    for machine in MACHINES.values():
        if not machine.arch or log.fault or not _runs(log, machine.arch):
            continue
        timed = log.timed(machine.arch, l2="cold")
        ctas = f"{timed.ctas_per_sm} CTA{'' if timed.ctas_per_sm == 1 else 's'} per SM"
        told = f"Modelled on a {timed.figures.product}, cold L2 cache, {ctas}, launch included."
        points.append(Point(label, work, "modelled", timed.total_ns * 1e-9, machine.name, series, f"{how} {told}"))
    return points


def launches_of(launches: Capture | CapturedLaunch) -> list[tuple[CapturedLaunch, EventLog]]:
    """The launches that compute, each run again and with its events; without those that have less than a thousandth of
    the largest one's FLOPs, which prepare indices and plans.

    Raises:
        ValueError: none of them has FLOPs.
    """
    found = []
    for launch in launches if isinstance(launches, Capture) else [launches]:
        log = launch.record()
        flops = sum(flops_of(log).values())
        if flops:
            found.append((flops, launch, log))
    if not found:
        raise ValueError(f"launch: {launches!r} has no FLOPs, so it has no place on a roofline")
    most = max(flops for flops, *_ in found)
    return [(launch, log) for flops, launch, log in found if flops >= most / 1000]


def _runs(log: EventLog, arch: str) -> bool:
    compiled_for = target(log)
    try:
        return compiled_for is None or Architecture.parse(arch).runs(compiled_for)
    except LaunchError:
        return False
