"""A launch as data: fresh arguments from random numbers, and what must hold afterwards."""

from __future__ import annotations

import lzma
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from sglab import gpu

PTX = Path(__file__).parent / "ptx"
ARCHITECTURES = {"sm_80": "sm_80", "sm_90": "sm_90a", "sm_90a": "sm_90a", "sm_100": "sm_100a", "sm_100a": "sm_100a"}
"""The emulated device that runs each target."""


class Draw:
    """Random arguments: normal floats, or (integers=True) small whole numbers, whose sums and products are exact."""

    def __init__(self, seed: int, integers: bool = False) -> None:
        self._generator, self._integers = torch.Generator().manual_seed(seed), integers

    def floats(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        if self._integers:
            return self.whole(-3, 4, *shape).to(dtype)
        return torch.randn(*shape, generator=self._generator).to(dtype)

    def tf32(self, *shape: int) -> torch.Tensor:
        """Floats that tf32 holds exactly."""
        return (self.floats(*shape).view(torch.int32) & ~0x1FFF).view(torch.float32)

    def whole(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
        return torch.randint(low, high, shape, dtype=torch.int64, generator=self._generator).to(dtype)


@dataclass(frozen=True)
class Map:
    """A tiled tensor map over a contiguous tensor. box: innermost first, as in the driver API; swizzle: in bytes."""

    tensor: torch.Tensor
    box: tuple[int, ...]
    swizzle: int = 0


@dataclass(frozen=True)
class Scratch:
    """Memory for the kernel alone; what it leaves there (tensor maps in the machine's own form) is not compared."""

    nbytes: int


Arguments = list[Any]


@dataclass(frozen=True)
class Launch:
    """One kernel launch.

    module: the PTX file's name without ending
    make: fresh arguments; check: raises AssertionError where the results are wrong
    fails: the launch must raise an error that mentions this
    exact: with whole numbers every result is exact, so any two machines must agree on every bit
    """

    name: str
    module: str
    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    make: Callable[[Draw], Arguments]
    check: Callable[[Arguments], None]
    cluster: tuple[int, int, int] = (1, 1, 1)
    smem: int = 0
    fails: str | None = None
    exact: bool = True

    @property
    def target(self) -> str:
        return module(self.module).target

    def run(self, device: gpu.Device, arguments: Arguments) -> Arguments:
        """Launches on the device with arguments copied to it; returns the arguments as they are afterwards."""
        placed = [_placed(argument, device.torch_device) for argument in arguments]
        kernel = module(self.module)[self.entry]
        args = [_argument(argument) for argument in placed]
        kernel.launch(device, self.grid, self.block, cluster=self.cluster, smem=self.smem, args=args)
        device.synchronize()
        after = zip(arguments, placed, strict=True)
        return [given if isinstance(given, Scratch) else _placed(argument, "cpu") for given, argument in after]


@cache
def module(name: str) -> gpu.Module:
    return gpu.Module(lzma.decompress((PTX / f"{name}.ptx.xz").read_bytes()).decode(), f"{name}.ptx")


def close(actual: torch.Tensor, expected: torch.Tensor, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    torch.testing.assert_close(actual.double(), expected.double(), rtol=rtol, atol=atol)


def equal(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert torch.equal(actual, expected), (actual, expected)


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def tensors(arguments: Arguments) -> list[torch.Tensor]:
    """The tensors that a launch may have written."""
    found = [argument.tensor if isinstance(argument, Map) else argument for argument in arguments]
    return [one for one in found if isinstance(one, torch.Tensor)]


def _placed(argument: Any, device: str) -> Any:
    if isinstance(argument, Map):
        return Map(_copy(argument.tensor, device), argument.box, argument.swizzle)
    if isinstance(argument, Scratch):
        return torch.zeros(argument.nbytes, dtype=torch.uint8, device=device)
    return _copy(argument, device) if isinstance(argument, torch.Tensor) else argument


def _copy(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A copy that keeps the offset of a view: alignment is part of the launch."""
    if tensor.storage_offset() == 0:
        return tensor.clone().to(device)
    base = tensor.new_zeros(tensor.storage_offset() + tensor.numel()).to(device)
    view = base[tensor.storage_offset() :].view(tensor.shape)
    view.copy_(tensor)
    return view


def _argument(argument: Any) -> Any:
    if isinstance(argument, Map):
        return gpu.TensorMap(argument.tensor, tuple(reversed(argument.box)), swizzle=argument.swizzle)
    return argument
