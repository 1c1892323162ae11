"""Plans made on the device from lengths that are there, so that no host waits: csrc/kernels/portable/flash_mla_plan.cu.

FlashMLA's metadata and FlashInfer's plan are made once per step, and so is a plan that our host planner makes. These
kernels are for callers who have the lengths on a GPU only, or capture a CUDA graph, in which lengths change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch

from sglab.gpu import Device, Launch
from sglab.gpu.relocation import Relocation
from sglab.kernels import ptx
from sglab.kernels.combine.contract import MANY_SPLITS
from sglab.kernels.contract import Contract
from sglab.kernels.launch_cache import MOST, described, kept
from sglab.kernels.mla.decode import scratch
from sglab.kernels.mla.work_units import Works
from sglab.kernels.recipe import ALIGNMENT
from sglab.planning.flash_mla import FIELDS

MODULE = "flash_mla_plan"
THREADS = 128
MAX_BATCH = 40_000
"""Requests whose lengths fit shared memory."""

_metadata: WeakKeyDictionary[Any, dict[tuple[int, int, int], Relocation]] = WeakKeyDictionary()
"""Launches that make metadata, per device, by batch, parts and the lengths' alignment."""


@dataclass(frozen=True)
class Metadata:
    """What get_mla_metadata gives, see planning/flash_mla.py: int32 (parts, 8) and (batch + 1,)."""

    tile_scheduler_metadata: torch.Tensor
    num_splits: torch.Tensor


def metadata(device: Device, cache_seqlens: torch.Tensor, parts: int) -> tuple[Launch, Metadata]:
    """The launch that deals requests out to parts, and what it will fill. cache_seqlens: (batch,) int32, batch ≥ 1."""
    tensors, made = _filled(cache_seqlens, parts)
    return kept(device, ("get_mla_metadata", described(*tensors)), lambda: [_launch(device, *tensors)], tensors)[
        0
    ], made


def metadata_elsewhere(device: Device, cache_seqlens: torch.Tensor, parts: int) -> tuple[Launch, Metadata]:
    """Like `metadata`, for calls whose tensors lie elsewhere every time: one launch is moved to them.

    It does not know where addresses are among its parameters, so that no recipe can be made of it.
    """
    tensors, made = _filled(cache_seqlens, parts)
    places = tuple([tensor.data_ptr() for tensor in tensors])
    known, key = _metadata.setdefault(device, {}), (len(cache_seqlens), parts, places[0] % ALIGNMENT)
    relocation = known.get(key)
    if relocation is None:
        launch = _launch(device, *tensors)
        if len(known) >= MOST:
            known.clear()
        relocation = known[key] = Relocation(device, launch, tensors)
    return relocation.at(places, tensors if device.torch_device == "cpu" else None), made


def _filled(cache_seqlens: torch.Tensor, parts: int) -> tuple[tuple[torch.Tensor, ...], Metadata]:
    """A launch's tensors: the lengths, and room for what is made of them."""
    place = cache_seqlens.device
    made = Metadata(
        torch.empty(parts, len(FIELDS), dtype=torch.int32, device=place),
        torch.empty(len(cache_seqlens) + 1, dtype=torch.int32, device=place),
    )
    return (cache_seqlens.contiguous(), made.tile_scheduler_metadata, made.num_splits), made


def _launch(device: Device, lengths: torch.Tensor, metadata: torch.Tensor, num_splits: torch.Tensor) -> Launch:
    batch, remedy = len(lengths), "Plan on the host, with sglab.planning.flash_mla."
    Contract("get_mla_metadata").require(batch <= MAX_BATCH, "cache_seqlens", f"of at most {MAX_BATCH}", batch, remedy)
    arguments = [lengths, batch, len(metadata), metadata, num_splits]
    kernel = ptx.module(MODULE)["get_mla_metadata"]
    return kernel.prepare(device, grid=1, block=THREADS, smem=4 * batch, args=arguments)


def works(
    device: Device, plan: Metadata, cache_seqlens: torch.Tensor, tokens: int = 1, causal: bool = False
) -> tuple[Launch, Works]:
    """The launch that turns FlashMLA's metadata into our SM90 kernel's work units, and what it will fill.

    Args:
        tokens: query tokens per request; with several, each becomes a request of its own: token i of request r is
            request r · tokens + i, and sees, if causal, all but the last tokens − 1 − i.
    """
    batch, parts, place = len(cache_seqlens), len(plan.tile_scheduler_metadata), cache_seqlens.device
    requests = batch * tokens
    # One buffer: the fewer addresses there are to come back, the more often a launch is recognised.
    sizes = [4 * requests * parts, requests, requests + 1, requests]
    laid_out, numbers, slot_indptr, counts = scratch(place, sum(sizes), torch.int32, "work units").split(sizes)
    made = Works(
        laid_out.view(requests, parts, 4),
        numbers,
        slot_indptr,
        counts,
        (batch + parts) * tokens,
        parts > MANY_SPLITS * batch,
        requests,
    )
    given = (plan.tile_scheduler_metadata.contiguous(), plan.num_splits.contiguous(), cache_seqlens.contiguous())
    filled = (made.works, made.requests, made.slot_indptr, made.partial_count)

    def make() -> list[Launch]:
        arguments = [*given, batch, tokens, int(causal), *filled]
        kernel = ptx.module(MODULE)["flash_mla_works"]
        return [kernel.prepare(device, grid=(-(-batch // THREADS), parts), block=THREADS, args=arguments)]

    key = ("flash_mla_works", described(*given, *filled), tokens, causal)
    return kept(device, key, make, (*given, *filled))[0], made
