"""What a device is: something that takes a checked launch and runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeVar

from sglab.gpu.architecture import Architecture
from sglab.gpu.arguments import Addresses, Allocation, Held, merged
from sglab.gpu.errors import LaunchError
from sglab.gpu.geometry import Geometry
from sglab.gpu.ptx import Entry
from sglab.gpu.tensor_map import TiledEncoding


@dataclass(frozen=True)
class Launch:
    """A launch with nothing left to decide: arguments are packed, sizes complete and checked.

    Attributes:
        spans: the memory the kernel may touch, as far as its arguments show; they may overlap.
        overlaps: the launch may start while the one before it in the stream ends (programmatic dependent launch); the
            kernel itself waits, with griddepcontrol.wait, before it touches the other's results.
        keep: the tensors behind the addresses; they live as long as the launch.
        tensors: those of `keep` whose memory is held against the addresses before the launch runs.
        addresses: where they are among the parameters; None where that is not known.
    """

    kernel: Entry
    geometry: Geometry
    params: bytes
    spans: tuple[Allocation, ...]
    overlaps: bool = False
    keep: Any = field(default=None, repr=False, compare=False)
    tensors: tuple[Held, ...] = field(default=(), repr=False, compare=False)
    addresses: Addresses | None = field(default=None, repr=False, compare=False)
    bound: dict[Device, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What a device has made of the launch, so that running it again is cheap."""

    def check_memory(self) -> None:
        """Raises LaunchError if a tensor's memory was given back after the launch was prepared: by resize_, set_, or
        through another tensor of the same storage."""
        for held in self.tensors:
            if held.tensor.data_ptr() != held.address:
                raise LaunchError(
                    f"{self.kernel.name}, {held.name}: the tensor's memory was at {held.address:#x} when the launch was"
                    f" prepared and is at {held.tensor.data_ptr():#x} (resize_ or set_?). Prepare the launch again"
                )

    def over(self, keep: Any, tensors: tuple[Held, ...] = ()) -> Launch:
        """The same launch, of tensors with the same addresses."""
        other = object.__new__(Launch)
        other.__dict__.update(self.__dict__, keep=keep, tensors=tensors, bound={})
        return other

    def of(self, params: bytes, spans: tuple[Allocation, ...], keep: Any, tensors: tuple[Held, ...]) -> Launch:
        """The same launch of other arguments; nothing is checked again."""
        other = object.__new__(Launch)
        fields = {"params": params, "spans": spans, "keep": keep, "tensors": tensors, "addresses": None, "bound": {}}
        other.__dict__.update(kernel=self.kernel, geometry=self.geometry, overlaps=self.overlaps, **fields)
        return other

    @cached_property
    def allocations(self) -> tuple[Allocation, ...]:
        """The spans in order of address, those that overlap joined into one; an emulator holds the kernel to them."""
        return merged(self.spans)

    @property
    def allocations_as_given(self) -> tuple[Allocation, ...]:
        """The same in the order of the arguments, which does not depend on where the process has them."""
        first = {
            one: next(n for n, span in enumerate(self.spans) if one.address <= span.address < one.address + one.nbytes)
            for one in self.allocations
            if one.nbytes
        }
        return tuple(sorted(first, key=first.__getitem__))


class Device(Protocol):
    """A GPU, real or emulated."""

    @property
    def name(self) -> str:
        """For people: "H100 (cuda:0)", "emulated sm_100a, 148 SMs"."""

    @property
    def arch(self) -> Architecture:
        """What PTX it runs."""

    @property
    def sms(self) -> int:
        """Streaming multiprocessors."""

    @property
    def torch_device(self) -> str:
        """Where its tensors live, as torch names it: "cpu", "cuda:0"."""

    def encode(self, encoding: TiledEncoding) -> bytes:
        """The 128 bytes of a tensor map, in the form that this device reads."""

    def run(self, launch: Launch) -> Any:
        """Runs the launch. Returns the emulator's LaunchReport; a GPU returns None and runs in stream order."""

    def synchronize(self) -> None:
        """Waits until everything launched has finished; raises what went wrong in it."""


Log = TypeVar("Log", covariant=True)
Stepped = TypeVar("Stepped", covariant=True)


class Recorder(Device, Protocol[Log]):
    """A device that can keep what a launch did. What it keeps is of a room above: an EventLog."""

    def record(self, launch: Launch, details: bool = True) -> Log:
        """Runs the launch and keeps its events."""


class Stepper(Device, Protocol[Stepped]):
    """A device that can hold a launch under control. What holds it is of a room above: a Session."""

    def session(self, launch: Launch, keep: Any = None) -> Stepped:
        """The launch, not run but under control.

        Args:
            keep: what must live as long as the session: the tensors whose addresses the launch holds.
        """
