"""What CUDA streams and graphs ask of memory that outlives a call."""

from __future__ import annotations

from threading import get_ident

import torch

from sglab.gpu.cuda import current_stream


def capturing(device: torch.device) -> bool:
    """Whether a CUDA graph is being captured: what is allocated meanwhile belongs to the graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def stream(device: torch.device) -> int:
    """Recipes keep buffers, so each stream, and on the CPU each thread, has its own."""
    if device.type != "cuda":
        return get_ident()
    return current_stream(torch.cuda.current_device() if device.index is None else device.index)
