"""Many students, one GPU: a queue in which each has it for seconds.

    with classroom.device("auto") as device:   # the GPU if it is free, else the emulator, and says which
        kernel.launch(device, grid=…, args=[…])

A place in the queue is a lock on a file, held by the process: it is given up when the process ends, however it ends.
Places
are taken in the order in which they were asked for. Nothing takes the GPU away from who has it: that is between people.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sglab.gpu import Device

VARIABLE = "SGLAB_GPU_QUEUE"
"""Names the queue's folder, which all who share a GPU must share."""
DEFAULT = Path("/tmp/sglab-gpu-queue")
POLL_SECONDS = 0.02
COUNTER = "counter"
SUFFIX = ".place"


@dataclass(frozen=True)
class Place:
    """A place in the queue.

    Attributes:
        number: later places have higher ones.
        before: how many were before it when it was taken.
        waited: seconds until the GPU was its own.
    """

    number: int
    before: int
    waited: float


class GpuBusyError(RuntimeError):
    """The GPU did not become free in time."""


class GpuQueue:
    """The queue for one GPU.

    Args:
        folder: of the queue, on this machine's own disk; is made for all users if there is none. $SGLAB_GPU_QUEUE, else
            DEFAULT, if not given.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(os.environ.get(VARIABLE, DEFAULT))
        if not self.folder.is_dir():
            with suppress(FileExistsError):
                self.folder.mkdir(parents=True)
                self.folder.chmod(0o1777)  # all who share the GPU take places; none removes another's

    @contextmanager
    def turn(self, patience: float | None = None) -> Iterator[Place]:
        """Waits for the GPU, and has it for as long as the context lasts.

        Args:
            patience: seconds to wait at most; None: as long as it takes; 0: only if it is free now.

        Raises:
            GpuBusyError: it did not become free in time.
        """
        began = time.monotonic()
        number, file = self._take_place()
        path = self._path(number)
        try:
            before = len(self._living(number))
            while living := self._living(number):
                waited = time.monotonic() - began
                if patience is not None and waited >= patience:
                    raise GpuBusyError(f"the GPU is not free: {len(living)} before you after {waited:.1f} s")
                time.sleep(POLL_SECONDS)
            yield Place(number, before, time.monotonic() - began)
        finally:
            with suppress(FileNotFoundError):
                path.unlink()
            os.close(file)

    def waiting(self) -> int:
        """How many have or want the GPU now."""
        return len(self._living(None))

    def _take_place(self) -> tuple[int, int]:
        """Number and file, locked before anybody can see that it is not."""
        counter = os.open(self.folder / COUNTER, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            with suppress(PermissionError):
                os.fchmod(counter, 0o666)
            fcntl.flock(counter, fcntl.LOCK_EX)
            number = int(os.pread(counter, 32, 0) or b"0") + 1
            file = os.open(self._path(number), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
            fcntl.flock(file, fcntl.LOCK_EX)
            os.pwrite(counter, f"{number:<31}".encode(), 0)
        finally:
            os.close(counter)
        return number, file

    def _living(self, below: int | None) -> list[int]:
        """Places below a number whose process lives. Those of the dead are swept away where that is allowed."""
        found = []
        for path in self.folder.glob(f"*{SUFFIX}"):
            number = int(path.stem)
            if below is not None and number >= below:
                continue
            try:
                file = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                with suppress(OSError):
                    path.unlink()
            except BlockingIOError:
                found.append(number)
            finally:
                os.close(file)
        return found

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012d}{SUFFIX}"


def _say(text: str) -> None:
    print(text, file=sys.stderr)


@contextmanager
def device(
    wanted: Literal["auto", "cuda", "emulator"] = "auto",
    *,
    patience: float | None = None,
    arch: str = "sm_100a",
    queue: GpuQueue | None = None,
    say: Callable[[str], None] = _say,
) -> Iterator[Device]:
    """A device to launch on, in turn with the others.

    Args:
        wanted: "auto": the GPU if it is free, else the emulator; "cuda": the GPU, waiting for it; "emulator".
        patience: seconds to wait for the GPU; by default none with "auto", and as long as it takes with "cuda".
        arch: of the emulated device.
        queue: this machine's if not given.
        say: called with a sentence: which it became, and why.

    Raises:
        ValueError: there is no such device.
        GpuBusyError: "cuda", and the patience ran out.
        GpuError: "cuda", and there is no GPU.
    """
    from sglab.emulator import EmulatedDevice
    from sglab.gpu import CudaDevice, GpuError

    if wanted not in ("auto", "cuda", "emulator"):
        raise ValueError(f"device: expected auto, cuda or emulator; got {wanted!r}")
    if wanted == "emulator":
        yield EmulatedDevice(arch)
        return
    turn = (queue or GpuQueue()).turn(0.0 if patience is None and wanted == "auto" else patience)
    try:
        place = turn.__enter__()
    except GpuBusyError as error:
        if wanted == "cuda":
            raise
        say(f"{error}; the emulator ({arch}) runs this")
        yield EmulatedDevice(arch)
        return
    try:
        try:
            found: Device = CudaDevice(0)
        except (GpuError, OSError, ImportError) as error:
            if wanted == "cuda":
                raise
            say(f"no GPU ({str(error).splitlines()[0]}); the emulator ({arch}) runs this")
            found = EmulatedDevice(arch)  # no GPU is there to wait for, so the place may be kept
        else:
            say(f"{found.name} runs this, after {place.waited:.1f} s in the queue")
        yield found
    finally:
        turn.__exit__(None, None, None)
