"""FlashMLA's contract by our own Hopper kernel, which follows FlashMLA's metadata; CPU tensors get an emulated H100."""

from __future__ import annotations

from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels import machine
from sglab.kernels.flash_mla import own
from sglab.kernels.flash_mla.contract import FlashMLAArguments
from sglab.kernels.flash_mla.requests import deliver_lse, requests_of
from sglab.kernels.mla_sm90 import MlaSm90, device_plan
from sglab.kernels.mla_sm90.decode import OPERATOR
from sglab.kernels.mla_sm90.device_plan import Metadata


def refuses(a: FlashMLAArguments) -> str | None:
    """Why the kernel cannot run a call, or None."""
    return own.refuses(a, OPERATOR, machine.hopper_of, "Hopper, as FlashMLA's dense kernel is")


def run(a: FlashMLAArguments) -> tuple[LaunchRecord, ...]:
    if a.q.shape[0] * a.q.shape[1] == 0:
        return ()
    device, r = machine.hopper_of(a.device), requests_of(a)
    plan = Metadata(a.tile_scheduler_metadata, a.num_splits)
    planned, works = device_plan.works(device, plan, a.cache_seqlens, r.per_request, a.causal)
    launches = MlaSm90(device, works, r.rows).launches(*own.decode_tensors(a, r))
    why = "our kernel for Hopper, by FlashMLA's plan,"
    records = tuple(machine.run(device, launch, why) for launch in (planned, *launches))
    deliver_lse(a, r)
    return records
