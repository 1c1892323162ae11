"""FlashMLA's contract by our own Blackwell kernel. It splits requests on its own: its tiles of 128 tokens do not fit
FlashMLA's plan in blocks of 64. CPU tensors get an emulated B200."""

from __future__ import annotations

from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels import devices
from sglab.kernels.flash_mla import own
from sglab.kernels.flash_mla.contract import PAGE_SIZE, FlashMLAArguments
from sglab.kernels.flash_mla.requests import deliver_lse, requests_of
from sglab.kernels.mla import MlaSm100
from sglab.kernels.mla.sm100_contract import OPERATOR
from sglab.planning.set_split_kv import set_split_kv_cluster_aware


def refuses(a: FlashMLAArguments) -> str | None:
    """Why the kernel cannot run a call, or None."""
    return own.refuses(a, OPERATOR, devices.device_of, "Blackwell (sm_100a)")


def run(a: FlashMLAArguments) -> tuple[LaunchRecord, ...]:
    if a.q.shape[0] * a.q.shape[1] == 0:
        return ()
    device, r = devices.device_of(a.device), requests_of(a)
    count = len(r.q)
    longest = max(r.block_table.shape[1] * PAGE_SIZE, 1)  # of the table: to know the lengths would mean to wait
    splits = set_split_kv_cluster_aware(longest, count, device.sms).split_kv
    decode = MlaSm100(device, count, r.rows, splits)
    launches = decode.launches(r.lengths, None, *own.decode_tensors(a, r), check_values=False)
    records = tuple(devices.run(device, launch, "our kernel for Blackwell") for launch in launches)
    deliver_lse(a, r)
    return records
