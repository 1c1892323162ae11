"""MLA decode by our own kernels: the one for Blackwell or Hopper, as the GPU requires; for CPU tensors the one for
Blackwell, on the emulator."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cache, lru_cache
from typing import Any, cast

import torch

from sglab.gpu import CudaDevice, Device, Launch
from sglab.gpu.errors import GpuError
from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels import devices, ptx
from sglab.kernels.contract import Contract
from sglab.kernels.cutlass_mla.contract import CutlassMLAArguments, lengths_on_host
from sglab.kernels.mla import MlaSm90, MlaSm100, device_plan, kernel_for
from sglab.kernels.mla.arguments import DTYPES, PAGE_SIZES, MlaDecodeArguments, unaligned
from sglab.kernels.mla.sm100_contract import Sm100Arguments
from sglab.kernels.mla.table import SM100
from sglab.kernels.recipe import Step
from sglab.kernels.streams import capturing, stream
from sglab.planning.flash_mla import num_sm_parts
from sglab.planning.mla_dims import LATENT_DIM
from sglab.planning.mla_sm90 import mla_sm90_plan


def refuses(a: CutlassMLAArguments) -> str | None:
    """Why none of our kernels can run a call, or None."""
    if a.page_size not in PAGE_SIZES:
        return f"it has no kernel for page size {a.page_size}, only for {', '.join(map(str, PAGE_SIZES))}"
    if why := unaligned(q_nope=a.q_nope, q_pe=a.q_pe, kv_c_and_k_pe_cache=a.kv_c_and_k_pe_cache):
        return why
    try:
        device = devices.device_of(a.device)
    except GpuError as error:
        return str(error)
    return (
        None if kernel_for(device) else f"it has no kernel for {device.name}, only for Blackwell (sm_100a) and Hopper"
    )


def run(a: CutlassMLAArguments) -> tuple[LaunchRecord, ...]:
    return tuple(devices.run(step.device, step.launch, step.why) for step in steps(a)[0])


def reusable(a: CutlassMLAArguments) -> bool:
    """Whether the launches work on the call's own tensors, and on no copies of them."""
    return a.seq_lens.is_contiguous() and len(a.q_nope) > 0


def steps(a: CutlassMLAArguments) -> tuple[tuple[Step, ...], Any]:
    """The launches of a call, and what they work on beside its tensors: the kernel's buffers, a plan, an LSE."""
    if len(a.q_nope) == 0:
        return (), None
    device = devices.device_of(a.device)
    given = _kernel_arguments(a)
    planned: tuple[Launch, ...] = ()
    decode: MlaSm90 | MlaSm100
    plan: Any = None
    if kernel_for(device) is SM100:
        decode = _blackwell(device, a)
        placed = decode.with_partials(*_partials(a)) if a.split_kv > 1 else decode
        launches = placed.prepare(Sm100Arguments(given, a.seq_lens.contiguous(), None))
    else:
        planned, decode, plan = _hopper(device, a)
        launches = decode.prepare(given)
    own_lse = given.lse if a.lse is None else None
    why = f"our kernel for {decode.kernel.generation},"
    return tuple(Step(device, launch, why) for launch in (*planned, *launches)), (decode, plan, own_lse)


def host_plan_key(
    device: Device,
    q_nope: torch.Tensor,
    kv_cache: torch.Tensor,
    page_table: torch.Tensor,
    seq_lens_cpu: torch.Tensor | Sequence[int] | None,
) -> Hashable:
    """What the launches of a call that was checked before depend on of the host's lengths: on Hopper, where its plan
    lies. Raises ContractError: there is not a length per request, or one that the page table has no room for."""
    lengths = lengths_on_host(Contract("cutlass_mla_decode"), seq_lens_cpu, len(q_nope))
    if lengths is None or kernel_for(device) is SM100:
        return None
    decode = host_planned(cast(Hashable, device), lengths, q_nope.shape[1])
    decode.require_room(page_table.shape[1] * kv_cache.shape[1])
    return decode.key


def plan_key(a: CutlassMLAArguments, keep: tuple[Any, ...]) -> Hashable:
    """The same for a call that was just checked, with what `steps` gave for it."""
    decode = keep[0]
    return decode.key if a.seq_lens_cpu is not None and isinstance(decode, MlaSm90) else None


def _kernel_arguments(a: CutlassMLAArguments) -> MlaDecodeArguments:
    """The call as our kernels take it. It is checked once, by its operator's contract, and `refuses`."""
    lse = torch.empty(a.q_nope.shape[:2], dtype=torch.float32, device=a.device) if a.lse is None else a.lse
    return MlaDecodeArguments(
        a.q_nope, a.q_pe, a.kv_c_and_k_pe_cache, a.page_table, float(a.sm_scale), a.out, lse, lse_base="e"
    )


def _blackwell(device: Device, a: CutlassMLAArguments) -> MlaSm100:
    # A session may step a call's launches when others have been made: on the emulator each has its own buffers.
    shared = a.device.type == "cuda" and not capturing(a.device)
    make = _sm100 if shared else _sm100.__wrapped__
    return make(cast(Hashable, device), *a.q_nope.shape[:2], a.split_kv, stream(a.device))


@lru_cache(maxsize=64)
def _sm100(device: Hashable, batch: int, heads: int, splits: int, stream: int) -> MlaSm100:
    """One for all layers and steps of a shape. Its partial results go to the call's workspace."""
    nowhere = torch.empty(0, dtype=torch.float32, device=cast(Device, device).torch_device)
    return MlaSm100(cast(Device, device), batch, heads, splits, "auto", nowhere, nowhere)


def _partials(a: CutlassMLAArguments) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for the splits' results in the workspace."""
    batch, heads = a.q_nope.shape[:2]
    slots, floats = batch * a.split_kv, a.workspace.view(torch.float32)
    size = slots * heads * LATENT_DIM
    return floats[:size].view(slots, heads, LATENT_DIM), floats[size : size + slots * heads].view(slots, heads)


def _hopper(device: Device, a: CutlassMLAArguments) -> tuple[tuple[Launch, ...], MlaSm90, Any]:
    """The launches that plan, and the kernel with its plan: the host's where it knows the lengths, else FlashMLA's,
    made on the device, which comes third. A captured graph is replayed with other lengths: there only the device may
    plan."""
    heads = a.q_nope.shape[1]
    if a.seq_lens_cpu is not None and not capturing(a.device):
        _load_for_capture(cast(Hashable, device), DTYPES[a.q_nope.dtype])
        return (), host_planned(cast(Hashable, device), a.seq_lens_cpu, heads), None
    dealt, plan = device_plan.metadata(device, a.seq_lens, num_sm_parts(h_q=heads, sm_count=device.sms))
    laid_out, works = device_plan.works(device, plan, a.seq_lens)
    return (dealt, laid_out), MlaSm90(device, works, heads, shared=True), plan


@cache
def _load_for_capture(device: Hashable, dtype: str) -> None:
    """What a warm-up planned by the host may leave unloaded, and a capture after it launches."""
    if isinstance(device, CudaDevice):
        for kernel in ptx.module(device_plan.MODULE):
            device.load(ptx.module(device_plan.MODULE)[kernel])
        for amount in ("few", "many"):
            device.load(ptx.module("split_kv_combine")[f"split_kv_combine_{amount}_{dtype}"])


@lru_cache(maxsize=4)
def host_planned(device: Hashable, lengths: tuple[int, ...], heads: int) -> MlaSm90:
    """The same for all layers of a step."""
    gpu = cast(Device, device)
    return MlaSm90(gpu, mla_sm90_plan(lengths, num_heads=heads, sm_count=gpu.sms), heads)
