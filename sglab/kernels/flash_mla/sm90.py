"""FlashMLA's contract by our own Hopper kernel, which follows FlashMLA's metadata; CPU tensors get an emulated H100."""

from __future__ import annotations

from typing import Any

from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels import devices
from sglab.kernels.flash_mla import own
from sglab.kernels.flash_mla.contract import FlashMLAArguments
from sglab.kernels.flash_mla.requests import Requests, deliver_lse, requests_of
from sglab.kernels.mla import MlaSm90, device_plan
from sglab.kernels.mla.device_plan import Metadata
from sglab.kernels.mla.sm90 import OPERATOR
from sglab.kernels.recipe import Step


def refuses(a: FlashMLAArguments) -> str | None:
    """Why the kernel cannot run a call, or None."""
    return own.refuses(a, OPERATOR, devices.hopper_of, "Hopper, as FlashMLA's dense kernel is")


def run(a: FlashMLAArguments) -> tuple[LaunchRecord, ...]:
    if a.q.shape[0] * a.q.shape[1] == 0:
        return ()
    r = requests_of(a)
    records = tuple(devices.run(step.device, step.launch, step.why) for step in _steps(a, r)[0])
    deliver_lse(a, r)
    return records


def steps(a: FlashMLAArguments) -> tuple[tuple[Step, ...], Any]:
    """The launches of a call that is `reusable`, and the objects whose buffers they work on."""
    return _steps(a, requests_of(a))


def reusable(a: FlashMLAArguments) -> bool:
    """Whether the launches work on the call's own tensors, and on no copies of them."""
    tensors = (a.tile_scheduler_metadata, a.num_splits, a.cache_seqlens)
    return len(a.q) > 0 and a.q.shape[1] == 1 and all(tensor.is_contiguous() for tensor in tensors)


def _steps(a: FlashMLAArguments, r: Requests) -> tuple[tuple[Step, ...], Any]:
    device, plan = devices.hopper_of(a.device), Metadata(a.tile_scheduler_metadata, a.num_splits)
    planned, works = device_plan.works(device, plan, a.cache_seqlens, r.per_request, a.causal)
    decode = MlaSm90(device, works, r.rows, shared=True)
    launches = (planned, *decode.prepare(own.kernel_arguments(a, r)))
    return tuple(Step(device, launch, "our kernel for Hopper, by FlashMLA's plan,") for launch in launches), decode
