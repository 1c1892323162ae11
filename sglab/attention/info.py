"""What an attention call did: which backend, which operators and implementations, on which machine, and why."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch

from sglab.kernels import Choice, record_choices


@dataclass(frozen=True)
class Run:
    """One operator that ran. `machine`: "cpu", "cuda", or a Triton route such as "interpreter" or "emulator"."""

    operator: str
    implementation: str
    machine: str
    reason: str

    def __str__(self) -> str:
        return f"{self.operator}: {self.implementation} on {self.machine} ({self.reason})"


@dataclass(frozen=True)
class AttendInfo:
    """The story of one `attend`.

    Attributes:
        backend: the registered name.
        reason: why this one.
        runs: its operators in order.
        notes: what else to know, such as a fallback that served part of the call.
    """

    backend: str
    reason: str
    mode: str
    runs: tuple[Run, ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.backend}, {self.mode}: {self.reason}", *map(str, self.runs), *self.notes]
        return "\n  ".join(lines)


class Log:
    """Collects the runs and notes of one call, in order."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.notes: list[str] = []


_log: ContextVar[Log | None] = ContextVar("attention log", default=None)


def note(text: str) -> None:
    """Add a note to the surrounding `attend`, once."""
    log = _log.get()
    if log is not None and text not in log.notes:
        log.notes.append(text)


def ran(operator: str, implementation: str, device: torch.device, reason: str) -> None:
    """Note in the surrounding `attend` that work was done by a library, not by an operator of `sglab.kernels`."""
    log = _log.get()
    run = Run(operator, implementation, device.type, reason)
    if log is not None and run not in log.runs:
        log.runs.append(run)


@contextmanager
def recording(device: torch.device) -> Iterator[Log]:
    """Collect what happens inside: operators' choices, library runs and notes."""
    log = Log()
    token = _log.set(log)
    try:
        with record_choices() as choices:
            yield log
    finally:
        _log.reset(token)
    log.runs[:0] = [_run(choice, device) for choice in choices]


def _run(choice: Choice, device: torch.device) -> Run:
    routes = sorted({launch.route for launch in choice.launches})
    reasons = [choice.reason, *sorted({launch.reason for launch in choice.launches})]
    return Run(choice.operator, choice.implementation, " and ".join(routes) or device.type, "; ".join(reasons))
