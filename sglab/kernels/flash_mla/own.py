"""What our kernels, for any GPU, have in common under FlashMLA's contract."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sglab.gpu import Device
from sglab.gpu.errors import GpuError
from sglab.kernels import ptx
from sglab.kernels.flash_mla.contract import FlashMLAArguments
from sglab.kernels.flash_mla.requests import Requests
from sglab.kernels.mla.arguments import MAX_HEADS, MlaDecodeArguments, unaligned
from sglab.planning.flash_mla import HEAD_DIM_V


def refuses(
    a: FlashMLAArguments, kernel: str, device_of: Callable[[torch.device], Device], written_for: str
) -> str | None:
    """Why a kernel cannot run a call, or None. device_of: the device for tensors of a torch device"""
    heads = a.q.shape[2]
    if not 1 <= heads <= MAX_HEADS:
        return f"it has room for {MAX_HEADS} heads, and this call has {heads}"
    if why := unaligned(q=a.q, k_cache=a.k_cache):
        return why
    try:
        device = device_of(a.device)
    except GpuError as error:
        return str(error)
    runs = device.arch.runs(ptx.module(kernel).target)
    return None if runs else f"it was written for {written_for}, and this is {device.name}"


def kernel_arguments(a: FlashMLAArguments, r: Requests) -> MlaDecodeArguments:
    """The call as our kernels take it. It is checked once, by its operator's contract, and `refuses`."""
    q_nope, q_pe = r.q.split([HEAD_DIM_V, r.q.shape[-1] - HEAD_DIM_V], -1)
    return MlaDecodeArguments(
        q_nope, q_pe, a.k_cache.squeeze(2), r.block_table, a.softmax_scale, r.out, r.lse, lse_base="e"
    )
