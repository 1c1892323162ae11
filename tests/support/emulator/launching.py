"""Launches PTX text on the emulator's bindings, with numpy arrays and scalars as arguments."""

import struct
from typing import Any

import numpy as np

from sglab import _core

HEADER = ".version 8.8\n.target sm_100a\n.address_size 64\n"
_SCALARS = {"i": "<i", "u": "<I", "q": "<q", "Q": "<Q", "f": "<f", "d": "<d"}


def parameters(kernel: Any, arguments: list[Any]) -> tuple[bytes, list[tuple[int, int, str]]]:
    """The parameter buffer and the memory that a kernel may touch. Scalars come as (struct code, value)."""
    buffer = bytearray()
    allocations = []
    for (name, size, align, *_), argument in zip(kernel.params, arguments, strict=True):
        buffer.extend(b"\0" * (-len(buffer) % align))
        if isinstance(argument, np.ndarray):
            allocations.append((argument.ctypes.data, argument.nbytes, name))
            value = struct.pack("<Q", argument.ctypes.data)
        elif isinstance(argument, bytes):
            value = argument
        else:
            value = struct.pack(_SCALARS[argument[0]], argument[1])
        assert len(value) == size, (name, size, len(value))
        buffer.extend(value)
    return bytes(buffer), allocations


def launch(
    ptx: str | _core.Kernel,
    arguments: list[Any],
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    cluster: tuple[int, int, int] = (1, 1, 1),
    smem: int = 0,
    max_instructions: int = 10_000_000,
    **machine: Any,
) -> _core.LaunchReport:
    """Runs the only kernel of some PTX text (or a kernel) and returns the report."""
    if isinstance(ptx, str):
        module = _core.Module(ptx if ".version" in ptx else HEADER + ptx)
        kernel = module.kernel(module.entries[0])
    else:
        kernel = ptx
    assert kernel.unsupported == []
    buffer, allocations = parameters(kernel, arguments)
    target = _core.Machine("sm_100a", machine.pop("sms", 4), **machine)
    return target.launch(kernel, grid, block, cluster, smem, buffer, allocations, max_instructions)
