"""Implementations of an operator: how one is chosen, and the record of which one ran and why."""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Protocol

import torch

from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels.known_calls import Template, forget


class Arguments(Protocol):
    """The checked arguments of one call: a frozen dataclass per operator, outputs already allocated."""

    @property
    def device(self) -> torch.device: ...


@dataclass(frozen=True)
class Choice:
    """Which implementation of an operator ran, and why that one.

    Attributes:
        reason: one sentence.
        passed_over: for implementation="auto", the better-ranked implementations that were not taken, each with its
            reason.
        launches: the kernels that ran, in order, each with the machine that it ran on; empty for a reference.
    """

    operator: str
    implementation: str
    reason: str
    passed_over: Mapping[str, str]
    launches: tuple[LaunchRecord, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.operator}: {self.implementation} ({self.reason})"]
        lines += [f"{each.kernel}, grid {each.grid}, on {each.route} ({each.reason})" for each in self.launches]
        return "\n  ".join(lines)


@dataclass(frozen=True)
class Implementation:
    """One way to compute an operator.

    Attributes:
        name: what callers pass as `implementation`.
        run: "module:function"; the function takes the operator's checked arguments, fills their output tensors and
            returns the records of its launches. Imported at the first use, so that optional packages stay optional.
        home: device types on which "auto" takes it; elsewhere it runs when requested by name.
        refuses: says why it cannot run a call ("needs float16"), or None if it can.
        steps: where the launches of a call can be made again (see recipe.py), gives them, and the object whose buffers
            they work on.
    """

    name: str
    run: str
    home: frozenset[str]
    refuses: Callable[[Any], str | None] = lambda arguments: None
    steps: Callable[[Any], tuple[Any, Any]] | None = None

    def function(self) -> Callable[[Any], tuple[LaunchRecord, ...]]:
        module, function = _place(self.run)
        return getattr(module, function)


@cache
def _place(run: str) -> tuple[ModuleType, str]:
    """The module, imported, and the function's name in it."""
    module, function = run.split(":")
    return importlib.import_module(module), function


def needs_triton(_: Arguments) -> str | None:
    """Refusal of every Triton implementation where Triton is not installed."""
    return None if triton_is_installed() else "Triton is not installed: pip install 'sglab[kernels]'"


@cache
def triton_is_installed() -> bool:
    """Whether Triton kernels can be compiled here, for a GPU or for the emulator."""
    return importlib.util.find_spec("triton") is not None


EVERYWHERE = frozenset({"cpu", "cuda"})
CPU = frozenset({"cpu"})
GPU = frozenset({"cuda"})


class Operator:
    """A named operator and its implementations, best first."""

    def __init__(self, name: str, *implementations: Implementation) -> None:
        self.name = name
        self._implementations = list(implementations)

    @property
    def implementations(self) -> tuple[str, ...]:
        """Names of the implementations, best first."""
        return tuple(each.name for each in self._implementations)

    def register(self, implementation: Implementation) -> None:
        """Add an implementation before the present ones."""
        if implementation.name in self.implementations:
            raise ValueError(f"{self.name}: an implementation named '{implementation.name}' is registered already")
        self._implementations.insert(0, implementation)
        forget()

    def __call__(self, arguments: Arguments, implementation: str = "auto") -> Choice:
        """Run the requested implementation, or the first suitable one, and record the choice."""
        chosen, reason, passed_over = self.choose(arguments, implementation)
        launches = chosen.function()(arguments)
        choice = Choice(self.name, chosen.name, reason, passed_over, launches)
        record(choice)
        return choice

    def chosen(self, arguments: Arguments, wanted: str) -> Callable[[Any], object]:
        """What runs calls like this one without choosing again: a choice follows from shapes, dtypes and options. A
        package's kernel is asked again: whether it can run may depend on more."""
        implementation, reason, passed_over = self.choose(arguments, wanted)
        if not implementation.home:
            return lambda arguments: self(arguments, wanted)

        choices = Template(Choice(self.name, implementation.name, reason, passed_over), "launches")

        def run(arguments: Any) -> None:
            record(choices.filled({"launches": implementation.function()(arguments)}))

        return run

    def choose(self, arguments: Arguments, wanted: str) -> tuple[Implementation, str, dict[str, str]]:
        """The implementation, the reason, and the better-ranked ones with why they were not taken."""
        if wanted != "auto":
            chosen = self._named(wanted)
            refusal = chosen.refuses(arguments)
            if refusal:
                others = ", ".join(each for each in self.implementations if each != wanted)
                raise ValueError(
                    f"{self.name}: implementation '{wanted}' cannot run this call: {refusal}. "
                    f"Use implementation='auto' or another of {others}"
                )
            return chosen, "named by the caller", {}
        passed_over: dict[str, str] = {}
        device = arguments.device.type
        for each in self._implementations:
            refusal = each.refuses(arguments)
            if refusal is None and device in each.home:
                return each, f"the first that is at home on {device} tensors", passed_over
            passed_over[each.name] = refusal or f"on {device} tensors it runs only when requested by name"
        listed = "; ".join(f"{name}: {why}" for name, why in passed_over.items())
        raise ValueError(f"{self.name}: no implementation can run this call on {device} ({listed})")

    def _named(self, wanted: str) -> Implementation:
        for each in self._implementations:
            if each.name == wanted:
                return each
        known = ", ".join(repr(name) for name in ("auto", *self.implementations))
        raise ValueError(f"{self.name}: implementation must be one of {known}; got {wanted!r}")


_last = threading.local()
_logs: ContextVar[tuple[list[Choice], ...]] = ContextVar("choice logs", default=())


def record(choice: Choice) -> None:
    """Make this the thread's last choice, and note it where choices are collected."""
    _last.choice = choice
    for log in _logs.get():
        log.append(choice)


def last_choice() -> Choice | None:
    """The choice that the most recent operator call of this thread made, or None before the first."""
    return getattr(_last, "choice", None)


@contextmanager
def record_choices() -> Iterator[list[Choice]]:
    """Collect the choice of every operator call inside the `with` block, in order."""
    log: list[Choice] = []
    token = _logs.set((*_logs.get(), log))
    try:
        yield log
    finally:
        _logs.reset(token)
