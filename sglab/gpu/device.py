"""What a device is: something that takes a checked launch and runs it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from sglab.gpu.architecture import Architecture
from sglab.gpu.arguments import Allocation, Held
from sglab.gpu.errors import LaunchError
from sglab.gpu.geometry import Geometry
from sglab.gpu.ptx import Entry
from sglab.gpu.tensor_map import TiledEncoding


@dataclass(frozen=True)
class Launch:
    """A launch with nothing left to decide: arguments are packed, sizes complete and checked.

    Attributes:
        allocations: the memory the kernel may touch, as far as its arguments show; an emulator holds it to them.
        overlaps: the launch may start while the one before it in the stream ends (programmatic dependent launch); the
            kernel itself waits, with griddepcontrol.wait, before it touches the other's results.
        keep: the tensors behind the addresses; they live as long as the launch.
        tensors: those of `keep` whose memory is held against the addresses before the launch runs.
    """

    kernel: Entry
    geometry: Geometry
    params: bytes
    allocations: tuple[Allocation, ...]
    overlaps: bool = False
    keep: Any = field(default=None, repr=False, compare=False)
    tensors: tuple[Held, ...] = field(default=(), repr=False, compare=False)
    places: dict[int, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Addresses that were looked for, see `moved`."""
    bound: dict[Device, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """What a device has made of the launch, so that running it again is cheap."""

    def check_memory(self) -> None:
        """Raises LaunchError if a tensor's memory was given back after the launch was prepared."""
        for held in self.tensors:
            if held.has_moved:
                raise LaunchError(
                    f"{self.kernel.name}, {held.name}: the tensor's memory was at {held.address:#x} when the launch was"
                    f" prepared and is at {held.tensor.data_ptr():#x} (resize_ or set_?). Prepare the launch again"
                )

    def moved(self, addresses: Sequence[tuple[int, int]], keep: Any = None) -> Launch:
        """The same launch on other tensors of the same shapes and strides.

        Args:
            addresses: Old and new address of each; the old ones are pointers among the parameters, not in tensor maps.
            keep: The tensors, as `keep` of a launch.
        """
        params: bytearray | None = None
        spans: list[Allocation] | None = None
        for old, new in addresses:
            offsets, found = self._places(old)
            if old == new or not offsets:
                continue
            params = params or bytearray(self.params)
            spans = spans or list(self.allocations)
            for offset in offsets:
                params[offset : offset + 8] = new.to_bytes(8, "little")
            for index in found:
                spans[index] = replace(spans[index], address=new)
        changes: dict[str, Any] = {"keep": keep, "tensors": ()}
        if params is not None and spans is not None:
            spans.sort(key=lambda span: span.address)
            changes |= {"params": bytes(params), "allocations": tuple(spans)}
        other = object.__new__(Launch)
        other.__dict__.update(self.__dict__, **changes)
        return other

    def _places(self, address: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Where an address is: offsets among the parameters, and which allocations begin there."""
        if address not in self.places:
            words = struct.unpack_from(f"<{len(self.params) // 8}Q", self.params)
            offsets = tuple(8 * index for index, word in enumerate(words) if word == address)
            spans = tuple(index for index, span in enumerate(self.allocations) if span.address == address)
            self.places[address] = offsets, spans
        return self.places[address]


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
