"""Workspaces of the vendors' kernels: how large, zeroed or not, and who shares them.

SGLang keeps one buffer per kind of kernel for all backends of a process: their kernels run one after the other. The
kernels here need none of these bytes, so none are allocated; the records say what upstream would allocate.
"""

from __future__ import annotations

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


def forget_workspaces() -> None:
    """Start over, as a new process would."""
    _shared.clear()
