"""What CUDA streams and graphs ask of memory that outlives a call."""

from __future__ import annotations

from threading import get_ident

import torch


def capturing(device: torch.device) -> bool:
    """Whether a CUDA graph is being captured: what is allocated meanwhile belongs to the graph."""
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def stream(device: torch.device) -> int:
    """Recipes keep buffers, so each stream, and on the CPU each thread, has its own."""
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else get_ident()
