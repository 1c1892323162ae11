"""The combine as CUDA C++: csrc/kernels/portable/combine.cu, from the PTX that ships, on a GPU or emulated."""

from __future__ import annotations

import torch

from sglab.gpu import Device, Launch, Strided
from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels import devices, ptx
from sglab.kernels.combine.contract import LSE_UNITS, CombineArguments
from sglab.kernels.launch_cache import described, kept

DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
THREADS = 128
SPREADING_BYTES = 100_000
"""Shared memory that the combine of many splits reserves and leaves unused: no more than two of its CTAs fit on an SM,
so that those which start before the last attention CTA has ended do not crowd on the few SMs that were idle."""
ROWS_OF_FEW = 4
"""Rows of a CTA where splits are few; where they are many it has one."""


def refuses(arguments: CombineArguments) -> str | None:
    """Why this machine cannot run the kernel, or None."""
    return devices.refuses_ptx("split_kv_combine", arguments.device)


def run(a: CombineArguments) -> tuple[LaunchRecord, ...]:
    if len(a.requests) == 0:
        return ()
    device = devices.device_of(a.device)
    tensors = (a.partial_out, a.partial_lse, a.requests, a.slot_indptr, a.partial_count, a.out, a.lse)
    key = ("split_kv_combine", described(*tensors), a.lse_base, a.many)
    (launch,) = kept(device, key, lambda: [prepare(device, a)], tensors)
    return (devices.run(device, launch, "our CUDA kernel"),)


def prepare(device: Device, a: CombineArguments) -> Launch:
    """The launch; it may overlap with the attention kernel before it."""
    heads, variant = a.partial_out.shape[1], "many" if a.many else "few"
    return ptx.module("split_kv_combine")[f"split_kv_combine_{variant}_{DTYPES[a.out.dtype]}"].prepare(
        device,
        grid=(heads if a.many else -(-heads // ROWS_OF_FEW), len(a.requests)),
        block=THREADS,
        smem=SPREADING_BYTES if a.many else 0,
        args=[
            a.partial_out,
            a.partial_lse,
            a.requests,
            a.slot_indptr,
            a.partial_count,
            Strided(a.out),
            a.out.stride(0),
            a.out.stride(1),
            a.lse,
            heads,
            LSE_UNITS[a.lse_base],
        ],
        overlaps=True,
    )
