"""Operator calls that were checked before: another call with the same shapes and options only launches.

The first call is checked, its implementation chosen, its launches packed: the recipe. What decides whether a recipe
serves a call is its tensors' shapes, strides, dtypes, devices and alignments, and the other arguments; nothing of the
tensors' contents, which a caller who wants them checked does not use recipes for, and not where they lie: addresses are
put into the launches at each call. The form is that of einops, which cooks a pattern once per shape.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from weakref import WeakKeyDictionary

import torch

from sglab.gpu import CudaDevice, Device, Launch
from sglab.gpu.cuda_relocation import CudaRelocation
from sglab.gpu.launch_record import LaunchRecord
from sglab.gpu.relocation import Relocation
from sglab.kernels import devices
from sglab.kernels.contract import reads_values
from sglab.kernels.registry import Arguments, Choice, Operator, record
from sglab.kernels.streams import capturing

ALIGNMENT = 16
"""Bytes. Nothing that is checked, and no kernel with recipes, asks for more."""
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
    """

    choice: Choice
    steps: tuple[Step, ...]
    keep: Any = None

    def run(self) -> None:
        """Launch, and record the choice."""
        self._record(tuple([devices.run(step.device, step.launch, step.why) for step in self.steps]))

    def _record(self, launches: tuple[LaunchRecord, ...]) -> None:
        choice = self.choice
        record(Choice(choice.operator, choice.implementation, choice.reason, choice.passed_over, launches))


@dataclass(frozen=True)
class KnownRecipe(Recipe):
    """One that serves other calls, too.

    Attributes:
        relocations: Of each step's launch.
        records: Of the launches, without reports.
        on_gpu: All of them by one call, where they run on a GPU.
    """

    relocations: tuple[Relocation, ...] = ()
    records: tuple[LaunchRecord, ...] = ()
    on_gpu: CudaRelocation | None = None

    def serve(self, tensors: Sequence[torch.Tensor | None]) -> None:
        """Launch on other tensors, like those that the recipe was made for, except for their addresses.

        Args:
            tensors: The call's, as they were given to `remember`; an emulated launch holds them, for it may be stepped.
        """
        addresses = tuple([0 if tensor is None else tensor.data_ptr() for tensor in tensors])
        if self.on_gpu is not None:
            self.on_gpu.run(addresses)
            self._record(self.records)
            return
        made: list[LaunchRecord] = []
        for step, relocation, said in zip(self.steps, self.relocations, self.records, strict=True):
            keep = (tensors, self.keep) if step.device.torch_device == "cpu" else None
            report = step.device.run(relocation.at(addresses, keep))
            made.append(said if report is None else replace(said, report=report))
        self._record(tuple(made))


_known: WeakKeyDictionary[Any, dict[Hashable, KnownRecipe]] = WeakKeyDictionary()


def shaped(*tensors: torch.Tensor | None) -> Hashable:
    """All of a call's tensors that checks, choice and packing depend on."""
    return tuple(
        [
            (each.shape, each.stride(), each.dtype, each.device, each.data_ptr() % ALIGNMENT)
            if isinstance(each, torch.Tensor)
            else type(each)  # None, or what a check refuses
            for each in tensors
        ]
    )


def known(device: Device, call: Hashable) -> KnownRecipe | None:
    """The recipe for a call on this device, if one like it was checked before.

    Args:
        call: the operator's name, `shaped` for all its tensors but the outputs, all its options, and the stream.
    """
    calls = _known.get(cast(Any, device))
    return None if calls is None else calls.get(call)


def remember(device: Device, calls: Sequence[Hashable], recipe: Recipe, tensors: Sequence[torch.Tensor | None]) -> None:
    """Keep a recipe; without the call's tensors, which its launches would keep alive. A call whose tensors overlap is
    not kept: from its addresses nothing follows for other calls.

    Args:
        calls: Under what `known` finds it.
        tensors: All that the call was given, and its outputs.
    """
    try:
        relocations = tuple(Relocation(step.device, step.launch, tensors) for step in recipe.steps)
    except ValueError:
        return
    recipes = _known.setdefault(cast(Any, device), {})
    if len(recipes) >= MOST:
        recipes.clear()
    steps = tuple(replace(step, launch=replace(step.launch, keep=None, tensors=())) for step in recipe.steps)
    records = tuple(devices.record_of(step.device, step.launch, step.why) for step in steps)
    on_gpu = CudaRelocation(device, relocations, len(tensors)) if isinstance(device, CudaDevice) else None
    known_one = KnownRecipe(recipe.choice, steps, recipe.keep, relocations, records, on_gpu)
    recipes.update(dict.fromkeys(calls, known_one))


def cooked(operator: Operator, arguments: Arguments, implementation: str) -> Recipe | None:
    """The recipe for a call whose arguments were checked, or None: its implementation makes no launches twice."""
    chosen, reason, passed_over = operator.choose(arguments, implementation)
    if chosen.steps is None:
        return None
    steps, keep = chosen.steps(arguments)
    return Recipe(Choice(operator.name, chosen.name, reason, passed_over), steps, keep)


def serves(tensor: Any, check_values: bool | None) -> bool:
    """Whether a recipe may serve a call: its contents are not to be checked, and no CUDA graph is being captured, whose
    allocations are the graph's."""
    if not isinstance(tensor, torch.Tensor) or reads_values(check_values, tensor.device):
        return False
    return not capturing(tensor.device)
