"""FlashMLA's contract by our own Hopper kernel, which follows FlashMLA's metadata; CPU tensors get an emulated H100."""

from __future__ import annotations

import torch

from sglab.gpu.errors import GpuError
from sglab.gpu.triton.record import LaunchRecord
from sglab.kernels import machine, ptx
from sglab.kernels.flash_mla.contract import FlashMLAArguments
from sglab.kernels.flash_mla.requests import deliver_lse, requests_of
from sglab.kernels.mla_sm90 import MlaSm90, device_plan
from sglab.kernels.mla_sm90.contract import MAX_HEADS
from sglab.kernels.mla_sm90.device_plan import Metadata
from sglab.planning.flash_mla import HEAD_DIM_V

OPERATOR = "mla_decode_sm90"


def refuses(a: FlashMLAArguments) -> str | None:
    """Why the kernel cannot run a call, or None."""
    if why := refuses_tensors(a):
        return why
    try:
        device = machine.hopper_of(a.device)
    except GpuError as error:
        return str(error)
    runs = device.arch.runs(ptx.module(OPERATOR).target)
    return None if runs else f"it was written for Hopper, as FlashMLA's dense kernel is, and this is {device.name}"


def refuses_tensors(a: FlashMLAArguments) -> str | None:
    """What our kernels, for any GPU, ask of a call."""
    heads = a.q.shape[2]
    if not 1 <= heads <= MAX_HEADS:
        return f"it has room for {MAX_HEADS} heads, and this call has {heads}"
    for name in ("q", "k_cache"):
        tensor: torch.Tensor = getattr(a, name)
        if tensor.data_ptr() % 16 or any(stride % 8 for stride in tensor.stride()[:-1]):
            return f"TMA needs every row of {name} at a multiple of 16 bytes"
    return None


def run(a: FlashMLAArguments) -> tuple[LaunchRecord, ...]:
    if a.q.shape[0] * a.q.shape[1] == 0:
        return ()
    device, r = machine.hopper_of(a.device), requests_of(a)
    plan = Metadata(a.tile_scheduler_metadata, a.num_splits)
    planned, works = device_plan.works(device, plan, a.cache_seqlens, r.per_request, a.causal)
    q_nope, q_pe = r.q.split([HEAD_DIM_V, r.q.shape[-1] - HEAD_DIM_V], -1)
    tensors = (q_nope, q_pe, a.k_cache.squeeze(2), r.block_table, a.softmax_scale, r.out, r.lse)
    launches = MlaSm90(device, works, r.rows).launches(*tensors)
    why = "our kernel for Hopper, by FlashMLA's plan,"
    records = tuple(machine.run(device, launch, why) for launch in (planned, *launches))
    deliver_lse(a, r)
    return records
