"""MLA decode by our own kernels: the one for Blackwell or Hopper, whichever the GPU is; for CPU tensors the one for
Blackwell, on the emulator."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache, lru_cache
from typing import cast

import torch

from sglab.gpu import CudaDevice, Device, Launch
from sglab.gpu.errors import GpuError
from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels import machine, ptx
from sglab.kernels.cutlass_mla.contract import MLAArguments
from sglab.kernels.mla_decode import DTYPES, LATENT_DIM, PAGE_SIZES, outputs, unaligned
from sglab.kernels.mla_sm90 import MlaSm90, device_plan
from sglab.kernels.mla_sm100 import MlaSm100
from sglab.planning.flash_mla import num_sm_parts
from sglab.planning.mla_sm90 import mla_sm90_plan

NAMES = {"mla_decode_sm100": "Blackwell", "mla_decode_sm90": "Hopper"}
"""Our kernels, and the GPUs that they are for."""


def refuses(a: MLAArguments) -> str | None:
    """Why none of our kernels can run a call, or None."""
    if a.page_size not in PAGE_SIZES:
        return f"it has no kernel for page size {a.page_size}, only for {', '.join(map(str, PAGE_SIZES))}"
    if a.sm_scale <= 0:
        return "it needs a positive sm_scale"
    if why := unaligned(q_nope=a.q_nope, q_pe=a.q_pe, kv_c_and_k_pe_cache=a.kv_c_and_k_pe_cache):
        return why
    try:
        device = machine.device_of(a.device)
    except GpuError as error:
        return str(error)
    return (
        None if kernel_for(device) else f"it has no kernel for {device.name}, only for Blackwell (sm_100a) and Hopper"
    )


def kernel_for(device: Device) -> str | None:
    """The name of our kernel for a device."""
    return next((name for name in NAMES if device.arch.runs(ptx.module(name).target)), None)


def run(arguments: MLAArguments) -> tuple[LaunchRecord, ...]:
    device = machine.device_of(arguments.device)
    name = kernel_for(device) or ""
    prepare = _blackwell if name == "mla_decode_sm100" else _hopper
    launches = prepare(device, arguments)
    return tuple(machine.run(device, launch, f"our kernel for {NAMES[name]},") for launch in launches)


def _blackwell(device: Device, a: MLAArguments) -> tuple[Launch, ...]:
    batch, heads = a.q_nope.shape[:2]
    decode = MlaSm100(device, batch, heads, a.split_kv, "auto", *_partials(a, batch, heads))
    out, lse = outputs("mla_decode_sm100", a.q_nope, a.out, a.lse)
    tensors = (a.q_nope, a.q_pe, a.kv_c_and_k_pe_cache, a.page_table, a.sm_scale, out, lse)
    return decode.launches(a.seq_lens.contiguous(), None, *tensors, check_values=False)


def _partials(a: MLAArguments, batch: int, heads: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Room for the splits' results in the workspace."""
    if a.split_kv == 1:
        return None, None
    slots, floats = batch * a.split_kv, a.workspace.view(torch.float32)
    size = slots * heads * LATENT_DIM
    return floats[:size].view(slots, heads, LATENT_DIM), floats[size : size + slots * heads].view(slots, heads)


def _hopper(device: Device, a: MLAArguments) -> tuple[Launch, ...]:
    if len(a.q_nope) == 0:
        return ()
    planned, decode = _hopper_decode(device, a)
    out, lse = outputs("mla_decode_sm90", a.q_nope, a.out, a.lse)
    tensors = (a.q_nope, a.q_pe, a.kv_c_and_k_pe_cache, a.page_table, a.sm_scale, out, lse)
    return (*planned, *decode.launches(*tensors))


def _hopper_decode(device: Device, a: MLAArguments) -> tuple[tuple[Launch, ...], MlaSm90]:
    """The launches that plan, and the kernel with its plan: the host's where it knows the lengths, else FlashMLA's,
    made on the device. A captured graph is replayed with other lengths, so there only the device may plan."""
    heads, on_gpu = a.q_nope.shape[1], a.device.type == "cuda"
    if a.seq_lens_cpu is not None and not (on_gpu and torch.cuda.is_current_stream_capturing()):
        _load_for_capture(cast(Hashable, device), DTYPES[a.q_nope.dtype])
        return (), _planned(cast(Hashable, device), a.seq_lens_cpu, heads)
    dealt, plan = device_plan.metadata(device, a.seq_lens, num_sm_parts(h_q=heads, sm_count=device.sms))
    laid_out, works = device_plan.works(device, plan, a.seq_lens)
    return (dealt, laid_out), MlaSm90(device, works, heads)


@cache
def _load_for_capture(device: Hashable, dtype: str) -> None:
    """What a warm-up planned by the host may leave unloaded, and a capture after it launches."""
    if isinstance(device, CudaDevice):
        for kernel in ptx.module(device_plan.MODULE):
            device.load(ptx.module(device_plan.MODULE)[kernel])
        for amount in ("few", "many"):
            device.load(ptx.module("split_kv_combine")[f"split_kv_combine_{amount}_{dtype}"])


@lru_cache(maxsize=4)
def _planned(device: Hashable, lengths: tuple[int, ...], heads: int) -> MlaSm90:
    """The same for all layers of a step."""
    gpu = cast(Device, device)
    return MlaSm90(gpu, mla_sm90_plan(lengths, num_heads=heads, sm_count=gpu.sms), heads)
