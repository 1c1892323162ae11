"""Limits of a seat: one control group per seat where the system lets us make it, limits of each process elsewhere.

Control groups hold all processes of a seat together, as a class needs it: a seat's kernels share its memory, and who
uses
more is stopped alone. Without them (no root, no delegated group) only each process is held, which does not keep a
student
from starting many.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
"""How often a seat's share of processors is handed out again."""
PARENT = "sglab-class"
CLASS_SHARES = 32 * 1024
"""Weight of the class against other processes of the machine, which count 1024 each; a group counts
as one otherwise.
"""


@dataclass(frozen=True)
class SeatLimits:
    """What a seat may use.

    Attributes:
        memory: bytes of all its processes; None: no limit.
        cpus: processors' worth of time; None: no limit.
        processes: processes and threads.
    """

    memory: int | None = 2 << 30
    cpus: float | None = 1.0
    processes: int = 512

    def __post_init__(self) -> None:
        if self.memory is not None and self.memory < 256 << 20:
            raise ValueError(f"memory: expected at least 256 MiB, which a notebook needs; got {self.memory} bytes")
        if self.cpus is not None and not self.cpus > 0:
            raise ValueError(f"cpus: expected more than 0; got {self.cpus}")


@dataclass(frozen=True)
class Confinement:
    """Limits in force for one seat.

    Attributes:
        enforced: what holds the seat, for people.
        folders: its control groups; none where only rlimits hold.
        enter: for the new process, before it becomes the student's.
    """

    enforced: str
    folders: tuple[Path, ...]
    enter: Callable[[], None]

    def memory(self) -> int | None:
        """Bytes that the seat uses now, page cache included; None where that is unknown."""
        return used_memory(self.folders)

    def remove(self) -> None:
        """Ends what is left of the seat, and its groups."""
        for folder in self.folders:
            remove_group(folder)


def confine(seat: str, limits: SeatLimits, groups: Path = CGROUPS) -> Confinement:
    """Makes the limits of a seat.

    Args:
        seat: its name, one that a roster may have.
        groups: where control groups are mounted.
    """
    try:
        folders = (
            _unified(seat, limits, groups) if (groups / "cgroup.controllers").exists() else _v1(seat, limits, groups)
        )
    except OSError as error:
        reason = f"rlimits of each process (no control groups: {error.strerror or error})"
        return Confinement(reason, (), lambda: set_rlimits(limits))

    def enter() -> None:
        for folder in folders:
            (folder / "cgroup.procs").write_text("0")

    return Confinement("control groups (memory, cpu, processes)", folders, enter)


def set_rlimits(limits: SeatLimits) -> None:
    """For this process and what it starts, each by itself. Data, not address space: torch reserves far more
    than it uses."""
    if limits.memory is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (limits.memory, limits.memory))


def used_memory(folders: tuple[Path, ...]) -> int | None:
    """Bytes in use of the seat whose control groups these are."""
    for folder in folders:
        for name in ("memory.current", "memory.usage_in_bytes"):
            with suppress(OSError, ValueError):
                return int((folder / name).read_text())
    return None


def remove_group(folder: Path, patience: float = 5.0) -> None:
    """Ends the group's processes and removes it; what is not there is fine.

    Args:
        patience: seconds for its processes to end: a group that is not empty cannot be removed.
    """
    end = time.monotonic() + patience
    while folder.is_dir():
        with suppress(OSError):
            for pid in (folder / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), 9)
        with suppress(OSError):
            folder.rmdir()
            return
        if time.monotonic() > end:
            return
        time.sleep(0.02)


def _v1(seat: str, limits: SeatLimits, groups: Path) -> tuple[Path, ...]:
    """One group in each of three hierarchies."""
    folders = []
    for controller, settings in (
        ("memory", {"memory.limit_in_bytes": limits.memory}),
        ("cpu", {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": _quota(limits)}),
        ("pids", {"pids.max": limits.processes}),
    ):
        if not (groups / controller).is_dir():
            raise OSError(f"{groups / controller} is not mounted")
        folder = groups / controller / PARENT / seat
        folder.mkdir(parents=True, exist_ok=True)
        if controller == "cpu":
            (folder.parent / "cpu.shares").write_text(str(CLASS_SHARES))
        for name, value in settings.items():
            (folder / name).write_text(str(-1 if value is None else value))
        folders.append(folder)
    return tuple(folders)


def _unified(seat: str, limits: SeatLimits, groups: Path) -> tuple[Path, ...]:
    """One group below the hub's own, which must have been delegated to it: see `docs/classroom.md`."""
    base = groups / own_group().lstrip("/")
    if base.name == "hub":  # moved there for an earlier seat
        base = base.parent
    elif base != groups:  # a group with groups below it may hold no processes itself
        leaf = base / "hub"
        leaf.mkdir(exist_ok=True)
        for pid in (base / "cgroup.procs").read_text().split():
            (leaf / "cgroup.procs").write_text(pid)
    (base / "cgroup.subtree_control").write_text("+memory +cpu +pids")
    parent = base / PARENT
    parent.mkdir(exist_ok=True)
    (parent / "cgroup.subtree_control").write_text("+memory +cpu +pids")
    folder = parent / seat
    folder.mkdir(exist_ok=True)
    quota = _quota(limits)
    (folder / "memory.max").write_text("max" if limits.memory is None else str(limits.memory))
    with suppress(OSError):  # where the kernel does not count swap
        (folder / "memory.swap.max").write_text("0")
    (folder / "cpu.max").write_text(f"{'max' if quota is None else quota} {PERIOD_US}")
    (folder / "pids.max").write_text(str(limits.processes))
    return (folder,)


def own_group() -> str:
    """This process's group in the unified hierarchy, such as /system.slice/sglab-hub.service."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line[3:]
    raise OSError("this process is in no unified control group")


def _quota(limits: SeatLimits) -> int | None:
    return None if limits.cpus is None else math.ceil(limits.cpus * PERIOD_US)


def parse_size(text: str) -> int:
    """`2G`, `1.5G`, `800M` as bytes.

    Raises:
        ValueError: it is no such text.
    """
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:].upper())
    try:
        return int(float(text[:-1]) * factor) if factor else int(text)
    except ValueError:
        raise ValueError(f"memory: expected a size such as 2G or 800M; got {text!r}") from None
