"""Chooses the machine for a launch of a Triton kernel, from its tensors and the caller's wish."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sglab.gpu.errors import LaunchError
from sglab.gpu.launch_record import ROUTES, Route

ENVIRONMENT = "SGLAB_TRITON"
ON_GPU = "the tensors are on a GPU"
"""Why a launch takes the route cuda."""
_PLAIN = frozenset({int, float, bool, str, type(None)})  # arguments without tensors; there are many of these


def tensors(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(name, tensor) of every tensor among the arguments, those in tuples and tensor descriptors included."""
    for name, value in arguments.items():
        if type(value) not in _PLAIN:
            yield from _tensors_of(name, value)


def _tensors_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _tensors_of(f"{name}[{index}]", item)
    elif hasattr(value, "base") and hasattr(value, "block_shape"):
        yield from _tensors_of(f"{name}.base", value.base)
    elif hasattr(value, "data_ptr") and hasattr(value, "device"):
        yield name, value


def storages(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(name, storage) behind every tensor. A kernel may index from a view into the pool around it."""
    for name, tensor in tensors(arguments):
        # Triton's reinterpreting wrapper holds the tensor as its base.
        yield name, (tensor if hasattr(tensor, "untyped_storage") else tensor.base).untyped_storage()


def device_type(kernel: str, arguments: Mapping[str, Any]) -> str:
    """'cuda' or 'cpu': where all tensors of a launch live. A launch without tensors goes to the GPU if there is one."""
    found = {name: tensor.device.type for name, tensor in tensors(arguments)}
    kinds = set(found.values())
    if kinds <= {"cpu"} or kinds <= {"cuda"}:
        return kinds.pop() if kinds else _default_device_type()
    listed = ", ".join(f"{name} on {kind}" for name, kind in found.items())
    raise LaunchError(f"{kernel}: all tensors must be on one device, cpu or cuda; got {listed}. Use .to(...)")


def _default_device_type() -> str:
    try:
        import torch
    except ImportError:
        return "cpu"
    return "cuda" if torch.cuda.is_available() else "cpu"


def wish(kernel: str, argument: str | None) -> tuple[Route | None, str]:
    """The route that the launch argument or the environment requests, and which of the two did."""
    value, source = (argument, "route argument") if argument else (os.environ.get(ENVIRONMENT), ENVIRONMENT)
    if not value:
        return None, ""
    for route in ROUTES:
        if value == route:
            return route, source
    raise LaunchError(f"{kernel}: {source} must be one of {', '.join(ROUTES)}; got '{value}'")


def choose(
    kernel: str, arguments: Mapping[str, Any], argument: str | None, emulator_refusal: Callable[[], str | None]
) -> tuple[Route, str]:
    """The route of a launch and the reason for it.

    Args:
        emulator_refusal: says why the emulator cannot run this launch, or None if it can; asked only when it matters.
    """
    device = device_type(kernel, arguments)
    wanted, source = wish(kernel, argument)
    if device == "cuda":
        if wanted in {None, "cuda"}:
            return "cuda", ON_GPU
        raise LaunchError(f"{kernel}: {source} requests {wanted}, but the tensors are on a GPU; pass CPU tensors")
    if wanted == "cuda":
        raise LaunchError(f"{kernel}: {source} requests cuda, but the tensors are on the CPU; move them with .cuda()")
    if wanted == "interpreter":
        return "interpreter", f"{source} requests it"
    refusal = emulator_refusal()
    if wanted == "emulator":
        if refusal:
            raise LaunchError(f"{kernel}: {source} requests the emulator, but {refusal}")
        return "emulator", f"{source} requests it"
    if refusal:
        return "interpreter", f"the tensors are on the CPU, and {refusal}"
    return "emulator", "the tensors are on the CPU"


def canonical_grid(kernel: str, grid: Any, meta: Mapping[str, Any]) -> tuple[int, int, int]:
    """The launch grid as three integers; `grid` is what Triton takes: an int, a tuple, or a function of `meta`."""
    value = grid(meta) if callable(grid) else grid
    sizes = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(sizes) <= 3:
        raise LaunchError(f"{kernel}: grid must have 1 to 3 dimensions; got {value!r}")
    try:
        x, y, z = (*(size.__index__() for size in sizes), 1, 1)[:3]
    except AttributeError:
        raise LaunchError(f"{kernel}: grid must hold integers; got {value!r}") from None
    for axis, size, limit in (("x", x, 2**31 - 1), ("y", y, 65535), ("z", z, 65535)):
        if not 0 <= size <= limit:
            raise LaunchError(f"{kernel}: grid along {axis} must be 0 to {limit}; got {size}")
    return x, y, z
