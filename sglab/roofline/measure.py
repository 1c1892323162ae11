"""Timing on a GPU for a roofline: by CUDA events, on a full queue, with the L2 cache in a known state, as a median."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from sglab.roofline.machines import MACHINES
from sglab.roofline.points import Point
from sglab.roofline.work import Work

_AHEAD_CYCLES = 1_000_000
"""So long the GPU waits before a sample (half a millisecond): the host has queued all of it by then."""


@dataclass(frozen=True)
class Timing:
    """Samples of one call.

    Attributes:
        samples: seconds between the events around each call, in order.
        device: the GPU's name.
        l2: "cold": other memory was written before each sample; "warm": the same call was made before each.
    """

    samples: tuple[float, ...]
    device: str
    l2: str

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def quartiles(self) -> tuple[float, float]:
        """Between which half of the samples are."""
        first, _, third = statistics.quantiles(self.samples, n=4)
        return first, third

    def __repr__(self) -> str:
        low, high = (each * 1e6 for each in self.quartiles)
        return (
            f"<Timing on {self.device}: median {self.median * 1e6:.2f} us of {len(self.samples)}, "
            f"half within {low:.2f} to {high:.2f} us, {self.l2} L2 cache>"
        )


def measure(
    function: Callable[[], Any], *, l2: Literal["cold", "warm"] = "cold", repeats: int = 50, warm_ups: int = 10
) -> Timing:
    """How long what `function` launches takes on the current GPU, host time left out.

    Args:
        function: launches work on the current stream, the same each time.
        repeats: samples, at least 4.
        warm_ups: calls before, not timed: they compile, allocate and raise the clock.

    Raises:
        RuntimeError: there is no GPU.
        ValueError: naming the argument.
    """
    import torch

    if l2 not in ("cold", "warm"):
        raise ValueError(f"l2: expected 'cold' or 'warm'; got {l2!r}")
    if repeats < 4 or warm_ups < 0:
        raise ValueError(f"expected repeats from 4 and warm_ups from 0; got {repeats} and {warm_ups}")
    if not torch.cuda.is_available():
        raise RuntimeError(
            "measure: there is no GPU to time on. The emulator has no time of its own; sglab.roofline.recorded_points "
            "gives modelled time"
        )
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    other = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device="cuda")
    for _ in range(warm_ups):
        function()
    events = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(_AHEAD_CYCLES)
        if l2 == "cold":
            other.zero_()
        else:
            function()
        start.record()
        function()
        end.record()
        events.append((start, end))
        end.synchronize()
    samples = tuple(start.elapsed_time(end) * 1e-3 for start, end in events)
    return Timing(samples, properties.name, l2)


def measured_point(function: Callable[[], Any], work: Work, label: str, series: str = "", **options: Any) -> Point:
    """`measure(function, **options)` as a point of a roofline.

    Args:
        work: what the function does: from `decode`, `prefill`, `mla_decode`, or counted.

    Raises:
        RuntimeError, ValueError: as `measure`.
    """
    timing = measure(function, **options)
    machine = next((name for name in MACHINES if name in timing.device), timing.device)
    low, high = (each * 1e6 for each in timing.quartiles)
    how = (
        f"Median of {len(timing.samples)} on {timing.device}, CUDA events, {timing.l2} L2 cache; half of them within "
        f"{low:.2f} to {high:.2f} µs."
    )
    return Point(label, work, "measured", timing.median, machine, series, how)
