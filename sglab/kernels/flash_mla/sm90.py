"""FlashMLA's contract by our own Hopper kernel, which follows FlashMLA's metadata; CPU tensors get an emulated H100."""

from __future__ import annotations

import torch

from sglab.gpu.errors import GpuError
from sglab.gpu.triton.record import LaunchRecord
from sglab.kernels import machine, ptx
from sglab.kernels.flash_mla.contract import FlashMLAArguments
from sglab.kernels.mla_sm90 import MlaSm90
from sglab.kernels.mla_sm90.contract import MAX_HEADS, check
from sglab.kernels.mla_sm90.works import of_flash_mla
from sglab.planning.flash_mla import HEAD_DIM_V

OPERATOR = "mla_decode_sm90"


def refuses(a: FlashMLAArguments) -> str | None:
    """Why the kernel cannot run a call, or None."""
    tokens, heads = a.q.shape[1:3]
    if a.causal and tokens > 1:
        return "its rows all see the same tokens: it cannot mask several query tokens causally"
    if not 1 <= tokens * heads <= MAX_HEADS:
        return f"it has room for {MAX_HEADS} rows, query tokens times heads, and this call has {tokens * heads}"
    for name in ("q", "k_cache"):
        tensor: torch.Tensor = getattr(a, name)
        if tensor.data_ptr() % 16 or any(stride % 8 for stride in tensor.stride()[:-1]):
            return f"TMA needs every row of {name} at a multiple of 16 bytes"
    try:
        device = machine.hopper_of(a.device)
    except GpuError as error:
        return str(error)
    runs = device.arch.runs(ptx.module(OPERATOR).target)
    return None if runs else f"it was written for Hopper, as FlashMLA's dense kernel is, and this is {device.name}"


def run(a: FlashMLAArguments) -> tuple[LaunchRecord, ...]:
    batch, tokens, heads, _ = a.q.shape
    if batch == 0:
        return ()
    device, rows = machine.hopper_of(a.device), tokens * heads
    works = of_flash_mla(a.tile_scheduler_metadata, a.num_splits, a.cache_seqlens)
    q, out = a.q.reshape(batch, rows, a.q.shape[-1]), a.out.view(batch, rows, HEAD_DIM_V)
    lse = a.lse.view(batch, rows) if tokens == 1 else torch.empty_like(a.lse.view(batch, rows))
    tensors = (q[..., :HEAD_DIM_V], q[..., HEAD_DIM_V:], a.k_cache.squeeze(2), a.block_table, a.softmax_scale, out, lse)
    launches = MlaSm90(device, works, rows).prepare(check(OPERATOR, *tensors, "e"))
    records = tuple(machine.run(device, launch, "our kernel for Hopper, by FlashMLA's plan,") for launch in launches)
    if tokens > 1:
        a.lse.copy_(lse.view(batch, tokens, heads).transpose(1, 2))
    return records
