"""Faults that are looked for on a GPU without waiting for it: what is found is raised by a later call."""

from __future__ import annotations

from collections.abc import Callable

import torch

NOTHING = -1


class Audit:
    """The first fault of a pool's books, found on the device.

    `note` starts a look, `raise_known` raises what has arrived on the host since, `raise_any` waits for it.

    Args:
        device: a GPU, where the books are.
        refuse: raises the error of a fault, given the number that was noted.
    """

    def __init__(self, device: torch.device, refuse: Callable[[int], None]) -> None:
        self._refuse = refuse
        self._found = torch.full((), NOTHING, dtype=torch.int64, device=device)
        self._arrived = torch.full((), NOTHING, dtype=torch.int64, device="cpu", pin_memory=True)
        self._event = torch.cuda.Event()

    def note(self, wrong: torch.Tensor) -> None:
        """Remember the largest number of `wrong`, int64, of any shape; NOTHING is no fault."""
        torch.maximum(self._found, wrong.max(), out=self._found)
        self._arrived.copy_(self._found, non_blocking=True)
        self._event.record()

    def raise_known(self) -> None:
        """Raise the fault if the host has it already."""
        if self._event.query():
            self._raise()

    def raise_any(self) -> None:
        """Wait for what was started, and raise the fault if there is one."""
        self._event.synchronize()
        self._raise()

    def _raise(self) -> None:
        fault = int(self._arrived)
        if fault != NOTHING:
            self._refuse(fault)
