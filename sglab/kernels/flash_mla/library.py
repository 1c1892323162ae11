"""FlashMLA's contract by FlashMLA's own kernel for Hopper, where its package `flash_mla` is installed."""

from __future__ import annotations

import importlib.util

import torch

from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels.flash_mla.contract import FlashMLAArguments

HOPPER = 9
"""Its dense kernel's compute capability; those for Blackwell read sparse caches alone."""


def refuses(a: FlashMLAArguments) -> str | None:
    """Why the package cannot run a call, or None."""
    if a.device.type != "cuda":
        return "its kernel runs on a GPU, and these tensors are on a CPU"
    if importlib.util.find_spec("flash_mla") is None:
        return "flash_mla is not installed: build it from github.com/deepseek-ai/FlashMLA"
    major, minor = torch.cuda.get_device_capability(a.device)
    if major != HOPPER:
        return f"its dense kernel is for compute capability {HOPPER}.0, and this GPU has {major}.{minor}"
    return None


def run(a: FlashMLAArguments) -> tuple[LaunchRecord, ...]:
    """By a plan of the library's own, which its call makes on the GPU. Its launches are not ours to record."""
    if not a.q.numel():
        return ()
    import flash_mla

    plan, _ = flash_mla.get_mla_metadata()
    options = {"softmax_scale": a.softmax_scale, "causal": a.causal}
    out, lse = flash_mla.flash_mla_with_kvcache(
        a.q, a.k_cache, a.block_table, a.cache_seqlens, a.out.shape[-1], plan, None, **options
    )
    sees_nothing = _seen(a) <= 0  # there the library's LSE is +inf, and the contract's −inf
    a.out.copy_(out.masked_fill(sees_nothing[:, :, None, None], 0))
    a.lse.copy_(lse.masked_fill(sees_nothing[:, None, :], -torch.inf))
    return ()


def _seen(a: FlashMLAArguments) -> torch.Tensor:
    """(batch, query tokens): KV tokens that each query token sees."""
    tokens = a.q.shape[1]
    hidden = torch.arange(tokens - 1, -1, -1, device=a.device) if a.causal else torch.zeros(tokens, device=a.device)
    return a.cache_seqlens[:, None] - hidden
