"""Workspaces of the vendors' kernels: how large, zeroed or not, and who shares them.

SGLang keeps one buffer per kind of kernel for all backends of a process: their kernels run one after the other. The
kernels here need none of these bytes, so none are allocated; the records say what upstream would allocate.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Workspace:
    """A buffer of a vendor's kernels.

    Attributes:
        name: which kernels use it.
        nbytes: its size.
        zeros: it must start as zeros: the kernels keep counters in it.
    """

    name: str
    nbytes: int
    device: torch.device
    zeros: bool = False


_shared: dict[tuple[str, str], Workspace] = {}


def shared_workspace(name: str, nbytes: int, device: torch.device, zeros: bool = False) -> Workspace:
    """The workspace of this name on a device: the first backend decides on its size, all later ones share it."""
    return _shared.setdefault((name, str(device)), Workspace(name, nbytes, device, zeros))


@contextmanager
def a_process_of_its_own() -> Iterator[None]:
    """Backends made inside share workspaces with no others: each decides on its size."""
    held = dict(_shared)
    _shared.clear()
    try:
        yield
    finally:
        _shared.clear()
        _shared.update(held)


def forget_workspaces() -> None:
    """Start over, as a new process would."""
    _shared.clear()
