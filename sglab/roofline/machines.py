"""What GPUs can do at most, as their maker publishes it: bytes and FLOPs per second, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sglab.roofline.work import PIPES, Work


@dataclass(frozen=True)
class Ceiling:
    """A peak rate.

    Attributes:
        kind: "memory", or a key of PIPES.
        rate: bytes or FLOPs per second; of tensor cores without sparsity.
        source: where it is published.
    """

    kind: str
    rate: float
    source: str

    @property
    def text(self) -> str:
        """What it limits."""
        return "memory (DRAM)" if self.kind == "memory" else PIPES[self.kind]


@dataclass(frozen=True)
class Place:
    """Where some work is under a machine's roofs.

    Attributes:
        kind: the arithmetic that takes longest at its peak; `flops` are its own.
        intensity: FLOPs per byte of memory traffic.
        attainable: FLOPs per second below the roofs: the least of its peak and of intensity × bandwidth.
        bound: "memory" or "compute": which of the two it is.
        seconds: at that rate; no run on this machine takes less.
    """

    kind: str
    flops: float
    intensity: float
    attainable: float
    bound: str
    seconds: float


@dataclass(frozen=True)
class Machine:
    """A GPU's roofs.

    Attributes:
        arch: sm_90, sm_100: which figures the timing model has for it; empty: none.
    """

    name: str
    product: str
    arch: str
    ceilings: tuple[Ceiling, ...]

    @property
    def bandwidth(self) -> float:
        """Bytes per second of its memory."""
        return self.by_kind["memory"].rate

    @property
    def by_kind(self) -> Mapping[str, Ceiling]:
        return {ceiling.kind: ceiling for ceiling in self.ceilings}

    def ridge(self, kind: str = "bf16") -> float:
        """FLOPs per byte from which on this arithmetic, and no longer memory, is what limits."""
        return self._peak(kind) / self.bandwidth

    def place(self, work: Work) -> Place:
        """Where work is under these roofs.

        Raises:
            ValueError: it has no FLOPs, or of a kind that this machine has no published peak for.
        """
        times = {kind: flops / self._peak(kind) for kind, flops in work.flops.items() if flops > 0}
        if not times:
            raise ValueError("work: it has no FLOPs, so it has no place on a roofline")
        kind = max(times, key=lambda one: times[one])
        flops, moved = work.flops[kind], work.nbytes / self.bandwidth
        seconds = max(times[kind], moved)
        bound = "memory" if moved > times[kind] else "compute"
        return Place(kind, flops, flops / work.nbytes, flops / seconds, bound, seconds)

    def _peak(self, kind: str) -> float:
        if kind not in self.by_kind or kind == "memory":
            known = ", ".join(each for each in self.by_kind if each != "memory")
            raise ValueError(f"kind: expected one that {self.name} has a published peak for ({known}); got {kind!r}")
        return self.by_kind[kind].rate


_WHITE_PAPER = "NVIDIA H100 Tensor Core GPU Architecture, white paper, table of peak rates, H100 SXM5"
_H100 = "NVIDIA H100 data sheet, https://www.nvidia.com/en-us/data-center/h100/, H100 SXM"
_H200 = "NVIDIA H200 data sheet, https://www.nvidia.com/en-us/data-center/h200/, H200 SXM"
_SPARSE = "; half of what it states with sparsity"
_BRIEF = (
    "NVIDIA Blackwell Architecture Technical Brief, https://resources.nvidia.com/en-us-blackwell-architecture, HGX B200"
)


def _rates(source: str, tera: Mapping[str, float], note: str = "") -> tuple[Ceiling, ...]:
    sparse = {"bf16", "fp8", "fp4", "int8", "tf32"}
    return tuple(Ceiling(kind, rate * 1e12, source + (note if kind in sparse else "")) for kind, rate in tera.items())


_H100_RATES = {"bf16": 989.4, "fp8": 1978.9, "int8": 1978.9, "tf32": 494.7}
_H100_PLAIN = {"fp64 tensor": 66.9, "fp32": 66.9, "fp16": 133.8, "fp64": 33.5}
_H200_RATES = {"bf16": 989.5, "fp8": 1979, "int8": 1979, "tf32": 494.5, "fp64 tensor": 67, "fp32": 67, "fp64": 34}
_B200_RATES = {"bf16": 2250, "fp8": 4500, "fp4": 9000, "int8": 4500, "tf32": 1100, "fp32": 80, "fp64": 40}

MACHINES = {
    "H100": Machine(
        "H100",
        "H100 SXM, 80 GB HBM3",
        "sm_90",
        (*_rates(_H100, {"memory": 3.35}), *_rates(_WHITE_PAPER, {**_H100_RATES, **_H100_PLAIN})),
    ),
    "H200": Machine("H200", "H200 SXM, 141 GB HBM3e", "", _rates(_H200, {"memory": 4.8, **_H200_RATES}, _SPARSE)),
    "B200": Machine("B200", "B200, 192 GB HBM3e", "sm_100", _rates(_BRIEF, {"memory": 8, **_B200_RATES})),
}
"""By name. Their timing model (`sglab.events.timing`) is built from measurements; these are what data sheets say."""


def machine_of(machine: str | Machine) -> Machine:
    """A machine by its name, or itself.

    Raises:
        ValueError: no such name.
    """
    if isinstance(machine, Machine):
        return machine
    if machine not in MACHINES:
        raise ValueError(f"machine: expected one of {', '.join(MACHINES)}, or a Machine; got {machine!r}")
    return MACHINES[machine]
