"""What a fuzz target is: a maker of cases, which are texts, and a runner of them."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable
from typing import Protocol


class Finding(Exception):  # noqa: N818  not an error of the harness: what it looks for
    """A case showed something wrong that raised no exception by itself: a mismatch, a broken invariant.

    Attributes:
        replay: a smaller text that shows the same, if the target knows one.
    """

    def __init__(self, message: str, replay: str | None = None) -> None:
        super().__init__(message)
        self.replay = replay


class Target(Protocol):
    """A named part of the system under search. A module of `sglab_fuzz.targets` has an object `TARGET` of this kind."""

    name: str
    unit: str
    """What `run` counts: "inputs", "programs", "operations"."""

    def make(self, rng: random.Random, number: int) -> str:
        """The case of this number. The same generator state and number give the same text."""

    def run(self, text: str) -> int:
        """Run a case and return how many units it was. Errors that the documentation names are answers, not findings.

        Raises:
            Exception: whatever escapes is a finding.
        """


NAMES = ("front", "programs", "arithmetic", "engine", "launch", "widgets")


def load(name: str, device: str = "cpu") -> Target:
    """The target of this name, or of "module:function", on "cpu" (the emulator) or "cuda" where it knows that."""
    module_name, _, function = name.rpartition(":")
    module = importlib.import_module(module_name or f"sglab_fuzz.targets.{name}")
    make: Callable[[str], Target] = getattr(module, function if module_name else "target")
    return make(device)


def generator(seed: int, number: int) -> random.Random:
    """The generator of one case: cases do not depend on which worker runs them, nor on those before."""
    return random.Random(f"{seed}/{number}")
