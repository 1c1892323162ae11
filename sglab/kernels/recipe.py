"""Operator calls that were checked before: a second call with the same tensors, shapes and options only launches.

The first call is checked, its implementation chosen, its launches packed: the recipe. What decides whether a recipe
serves a call is where its tensors are, their shapes, strides and dtypes, and the other arguments; nothing of the
tensors' contents, so callers that need them checked do not use recipes. The form is that of einops, which
cooks a pattern once per shape.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch

from sglab.gpu import Device, Launch
from sglab.kernels import devices
from sglab.kernels.contract import reads_values
from sglab.kernels.registry import Arguments, Choice, Operator, record
from sglab.kernels.streams import capturing

MOST = 1024
"""Calls remembered per device; then all are forgotten."""


@dataclass(frozen=True)
class Step:
    """One launch of a call, and what to say of it: "our kernel for Hopper"."""

    device: Device
    launch: Launch
    why: str


@dataclass(frozen=True)
class Recipe:
    """A call that was checked, with its implementation chosen and its launches packed.

    Attributes:
        choice: As it is recorded, without the launches.
        steps: In order.
        keep: Buffers of the implementation's own that the launches work on.
        outputs: Where the outputs were in the call that it was made for; each later call has new ones.
    """

    choice: Choice
    steps: tuple[Step, ...]
    keep: Any = None
    outputs: tuple[int, ...] = ()

    def run(self, tensors: Any, outputs: tuple[torch.Tensor, ...]) -> None:
        """Launch, and record the choice.

        Args:
            tensors: The call's; an emulated launch holds them, for it may be stepped.
            outputs: The call's: like those that the recipe was made for, except for their addresses.
        """
        moved = tuple((old, new.data_ptr()) for old, new in zip(self.outputs, outputs, strict=True))
        made = []
        for device, launch, why in self._launches:
            keep = (tensors, outputs, self.keep) if device.torch_device == "cpu" else None
            made.append(devices.run(device, launch.moved(moved, keep), why))
        choice = self.choice
        record(Choice(choice.operator, choice.implementation, choice.reason, choice.passed_over, tuple(made)))

    @cached_property
    def _launches(self) -> tuple[tuple[Device, Launch, str], ...]:
        return tuple((step.device, step.launch, step.why) for step in self.steps)


_known: WeakKeyDictionary[Any, dict[Hashable, Recipe]] = WeakKeyDictionary()


def known(device: Device, call: Hashable) -> Recipe | None:
    """The recipe for a call on this device, if a matching one was checked before.

    Args:
        call: the operator's name, `described` for all its tensors but the outputs, all its options, and the stream.
    """
    calls = _known.get(cast(Any, device))
    return None if calls is None else calls.get(call)


def remember(device: Device, call: Hashable, recipe: Recipe) -> None:
    """Keep a recipe; without the call's tensors, which its launches would keep alive."""
    calls = _known.setdefault(cast(Any, device), {})
    if len(calls) >= MOST:
        calls.clear()
    steps = tuple(replace(step, launch=replace(step.launch, keep=None)) for step in recipe.steps)
    calls[call] = replace(recipe, steps=steps)


def cooked(
    operator: Operator, arguments: Arguments, implementation: str, outputs: tuple[torch.Tensor, ...]
) -> Recipe | None:
    """The recipe for a call whose arguments were checked, or None: its implementation makes no launches twice."""
    chosen, reason, passed_over = operator.choose(arguments, implementation)
    if chosen.steps is None:
        return None
    steps, keep = chosen.steps(arguments)
    choice = Choice(operator.name, chosen.name, reason, passed_over)
    return Recipe(choice, steps, keep, tuple(output.data_ptr() for output in outputs))


def serves(tensor: Any, check_values: bool | None) -> bool:
    """Whether a recipe may serve a call: its contents are not to be checked, and no CUDA graph is being captured, whose
    allocations are the graph's."""
    if not isinstance(tensor, torch.Tensor) or reads_values(check_values, tensor.device):
        return False
    return not capturing(tensor.device)
