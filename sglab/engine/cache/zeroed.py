"""Buffers that start at zero, and on a CPU take memory only where they are used."""

from __future__ import annotations

import math

import numpy as np
import torch

_ALIGNMENT = 128
"""Bytes: what TMA and vector loads ask of an address at most; torch's own CPU tensors have 64."""


def zeroed(shape: tuple[int, ...], dtype: torch.dtype, device: str | torch.device) -> torch.Tensor:
    """As torch.zeros, but a CPU's pages come from the system as they are first written.

    torch.zeros writes every byte, so that a pool of 0.9 GiB takes 0.9 GiB for a prompt of ten tokens. The system's own
    pages are zero already (calloc, by NumPy).
    """
    if torch.device(device).type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return torch.from_numpy(memory[first : first + size]).view(dtype).view(shape)
