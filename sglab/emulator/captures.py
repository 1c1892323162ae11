"""Launches made by other code, caught so that each can be stepped or recorded.

launches = gpu.capture(lambda: cutlass_mla_decode(q_nope, q_pe, kv, seq_lens, page_table, workspace, scale))
launches[0].session().run_to(opcode="tcgen05.mma")
log = launches.record()

Whatever runs on an EmulatedDevice is caught: kernels of ours, Triton's, and those that host code launches through
libsglab_cudart.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from sglab.emulator.session import Session
from sglab.events.cluster.columns import readable
from sglab.events.log import EventLog
from sglab.gpu.device import Launch, Recorder, Stepper
from sglab.gpu.errors import LaunchError
from sglab.gpu.geometry import Geometry
from sglab.gpu.ptx import Entry

if TYPE_CHECKING:
    from typing_extensions import Self

Bytes = npt.NDArray[np.uint8]
Memory = dict[tuple[int, int], Bytes]  # by address and size


class Emulator(Recorder[EventLog], Stepper[Session], Protocol):
    """A device whose launches can be caught: EmulatedDevice."""


class CapturedLaunch:
    """A launch with the memory that it found: it can be run again, as often as one likes.

    Kernels work on the tensors of the original launch. Each of `run`, `record` and `session` first gives them back the
    values that they had then, the module's variables included; what the launch wrote is in them afterwards.

    Args:
        device: the EmulatedDevice it ran on.
        launch: what was launched.
        report: what the device said, None if it failed.
    """

    def __init__(self, device: Emulator, launch: Launch, memory: Memory) -> None:
        self.device, self.launch, self._memory = device, launch, memory
        self.report: Any = None

    @classmethod
    def prepared(cls, device: Emulator, launch: Launch) -> Self:
        """A launch that has not run yet, with the memory as it is now."""
        return cls(device, launch, _snapshot(launch, None))

    @property
    def kernel(self) -> Entry:
        return self.launch.kernel

    @property
    def name(self) -> str:
        """The kernel's."""
        return self.launch.kernel.name

    @property
    def geometry(self) -> Geometry:
        return self.launch.geometry

    def restore(self) -> None:
        """Puts the memory back as the launch found it.

        Raises:
            LaunchError: some of it was freed.
        """
        lacks = getattr(self.launch.keep, "lacks", None)
        gone = None if lacks is None else lacks(self.launch.allocations)
        if gone is not None:
            raise LaunchError(
                f"{self.name}: the host program has freed {gone.nbytes} bytes of cudaMalloc that the launch works on"
            )
        for (address, _), data in self._memory.items():
            _view(address, len(data))[:] = data

    def run(self) -> Any:
        """Runs it again; returns the device's report."""
        self.restore()
        return self.device.run(self.launch)

    def record(self, details: bool = True) -> EventLog:
        """Runs it again and keeps its events; see EventLog."""
        self.restore()
        return self.device.record(self.launch, details)

    def session(self) -> Session:
        """The launch under control, from its first instruction; see Session."""
        self.restore()
        return self.device.session(self.launch)

    def __repr__(self) -> str:
        g = self.launch.geometry
        return f"<CapturedLaunch of {readable(self.name)}: grid {g.grid}, block {g.block}, on {self.device.name}>"


class Capture(Sequence[CapturedLaunch]):
    """The launches that were made, in order.

    Attributes:
        result: what the captured function returned.
        subject: what the launches work on, such as a batch, where the capturing code says so.
    """

    def __init__(self) -> None:
        self._launches: list[CapturedLaunch] = []
        self.result: Any = None
        self.subject: Any = None

    @property
    def main(self) -> CapturedLaunch:
        """The launch that executed most instructions."""
        if not self._launches:
            raise LaunchError("nothing was launched on an emulated device, so there is no launch to look at")
        return max(self._launches, key=lambda one: one.report.warp_instructions if one.report is not None else 0)

    def session(self) -> Session:
        """A session over the main launch."""
        return self.main.session()

    def record(self, details: bool = True) -> EventLog:
        """The events of the main launch."""
        return self.main.record(details)

    def _begin(self, device: Emulator, launch: Launch) -> CapturedLaunch:
        before = self._launches[-1] if self._launches else None
        self._launches.append(CapturedLaunch(device, launch, _snapshot(launch, before)))
        return self._launches[-1]

    @overload
    def __getitem__(self, index: int) -> CapturedLaunch: ...
    @overload
    def __getitem__(self, index: slice) -> list[CapturedLaunch]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._launches[index]

    def __len__(self) -> int:
        return len(self._launches)

    def __repr__(self) -> str:
        return f"<Capture of {len(self)} launches: {', '.join(one.name for one in self._launches)}>"


_open: ContextVar[tuple[Capture, ...]] = ContextVar("captures", default=())


def capture(function: Callable[[], Any]) -> Capture:
    """Calls `function` and catches the launches that it makes on emulated devices.

    Returns:
        the launches, a sequence of CapturedLaunch; its `result` is what the function returned.

    Raises:
        LaunchError: it made none, for its tensors were on a GPU or its implementation is not a kernel.
    """
    with capturing_launches() as launches:
        launches.result = function()
    if not launches:
        raise LaunchError(
            "capture: nothing was launched on an emulated device. Give CPU tensors and an implementation that is a "
            "kernel; what runs in torch or on a GPU cannot be stepped"
        )
    return launches


@contextmanager
def capturing_launches() -> Iterator[Capture]:
    """Catches the launches of a with-block; see `capture`."""
    launches = Capture()
    token = _open.set((*_open.get(), launches))
    try:
        yield launches
    finally:
        _open.reset(token)


def capturing() -> bool:
    """Whether launches are being captured."""
    return bool(_open.get())


def captured(device: Emulator, launch: Launch) -> list[CapturedLaunch]:
    """Notifies the active captures of a launch that is about to run; the caller sets each one's report."""
    return [one._begin(device, launch) for one in _open.get()]


def _view(address: int, nbytes: int) -> Bytes:
    return np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(address))


def _snapshot(launch: Launch, before: CapturedLaunch | None) -> Memory:
    """The launch's memory, its module's variables included. What is as it was before the previous launch shares its
    copy."""
    known = {} if before is None else before._memory
    spans = [(span.address, span.nbytes) for span in launch.allocations]
    spans += [(begin, size) for begin, size, _ in launch.kernel.emulated.variables]
    copies = {}
    for span in spans:
        now, old = _view(*span), known.get(span)
        copies[span] = old if old is not None and np.array_equal(old, now) else now.copy()
    return copies
