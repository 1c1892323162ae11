"""Rooflines: what a kernel has to do beside what a GPU can do at most. `sglab.widgets.Roofline` draws them.

work = roofline.mla_decode([4096] * 32, num_heads=128)      # FLOPs and bytes, from shapes
roofline.MACHINES["H100"].place(work)                       # its intensity, which roof is above it, least seconds
roofline.recorded_points(launch.record())                   # counted from a run on the emulator, and its modelled time
roofline.measured_point(function, work, "my kernel")        # timed, where there is a GPU
"""

from sglab.roofline.attention import decode, mla_decode, prefill
from sglab.roofline.counting import count
from sglab.roofline.machines import MACHINES, Ceiling, Machine, Place, machine_of
from sglab.roofline.measure import Timing, measure, measured_point
from sglab.roofline.points import ORIGINS, Point, launches_of, recorded_points
from sglab.roofline.work import PIPES, Work

__all__ = [
    "MACHINES",
    "ORIGINS",
    "PIPES",
    "Ceiling",
    "Machine",
    "Place",
    "Point",
    "Timing",
    "Work",
    "count",
    "decode",
    "launches_of",
    "machine_of",
    "measure",
    "measured_point",
    "mla_decode",
    "prefill",
    "recorded_points",
]
