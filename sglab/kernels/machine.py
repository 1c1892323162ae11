"""What a launch may assume about the machine that its tensors live on."""

from __future__ import annotations

from functools import cache

import torch

from sglab.gpu import CudaDevice, Device
from sglab.gpu.emulated import default_device


def capability(device: torch.device) -> tuple[int, int]:
    """Compute capability of a GPU; for the CPU that of a B200, which the emulator is by default."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else (10, 0)


def sm_count(device: torch.device) -> int:
    """Streaming multiprocessors of a GPU; for the CPU a B200's."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 148


def device_of(device: torch.device) -> Device:
    """The GPU that tensors are on; for the CPU the emulated B200. Raises GpuError: there is none."""
    return _gpu(device.index or 0) if device.type == "cuda" else default_device()


@cache
def _gpu(index: int) -> Device:
    return CudaDevice(index)
