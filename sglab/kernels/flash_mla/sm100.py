"""FlashMLA's contract by our own Blackwell kernel. It splits requests by itself: its tiles of 128 tokens do not fit
FlashMLA's plan in blocks of 64. CPU tensors get an emulated B200."""

from __future__ import annotations

from sglab.gpu.errors import GpuError
from sglab.gpu.triton.record import LaunchRecord
from sglab.kernels import machine, ptx
from sglab.kernels.flash_mla.contract import PAGE_SIZE, FlashMLAArguments
from sglab.kernels.flash_mla.requests import deliver_lse, requests_of
from sglab.kernels.flash_mla.sm90 import refuses_tensors
from sglab.kernels.mla_sm100 import MlaSm100
from sglab.kernels.mla_sm100.contract import OPERATOR
from sglab.planning.flash_mla import HEAD_DIM_V
from sglab.planning.set_split_kv import set_split_kv_cluster_aware


def refuses(a: FlashMLAArguments) -> str | None:
    """Why the kernel cannot run a call, or None."""
    if why := refuses_tensors(a):
        return why
    try:
        device = machine.device_of(a.device)
    except GpuError as error:
        return str(error)
    runs = device.arch.runs(ptx.module(OPERATOR).target)
    return None if runs else f"it was written for Blackwell (sm_100a), and this is {device.name}"


def run(a: FlashMLAArguments) -> tuple[LaunchRecord, ...]:
    if a.q.shape[0] * a.q.shape[1] == 0:
        return ()
    device, r = machine.device_of(a.device), requests_of(a)
    count = len(r.q)
    longest = max(r.block_table.shape[1] * PAGE_SIZE, 1)  # of the table: to know the lengths would mean to wait
    splits = set_split_kv_cluster_aware(longest, count, device.sms).split_kv
    q_nope, q_pe = r.q.split([HEAD_DIM_V, r.q.shape[-1] - HEAD_DIM_V], -1)
    tensors = (q_nope, q_pe, a.k_cache.squeeze(2), r.block_table, a.softmax_scale, r.out, r.lse)
    launches = MlaSm100(device, count, r.rows, splits).launches(r.lengths, None, *tensors, check_values=False)
    records = tuple(machine.run(device, launch, "our kernel for Blackwell") for launch in launches)
    deliver_lse(a, r)
    return records
