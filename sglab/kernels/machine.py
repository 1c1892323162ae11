"""What a launch may assume about the machine that its tensors live on."""

from __future__ import annotations

import torch


def capability(device: torch.device) -> tuple[int, int]:
    """Compute capability of a GPU; for the CPU that of a B200, which the emulator is by default."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" else (10, 0)


def sm_count(device: torch.device) -> int:
    """Streaming multiprocessors of a GPU; for the CPU a B200's."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 148
