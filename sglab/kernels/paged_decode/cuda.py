"""Paged decode as CUDA C++: csrc/kernels/portable/paged_decode.cu, from the PTX that ships, on a GPU or emulated."""

from __future__ import annotations

import math
from typing import Any

from sglab.gpu import Launch
from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels import ptx
from sglab.kernels.devices import device_of
from sglab.kernels.paged_decode.contract import HEAD_DIM, PagedDecodeArguments

THREADS = 128
LANES = HEAD_DIM // 8
"""Of a head: each holds the 8 dims of one 16-byte load."""


def prepare(a: PagedDecodeArguments) -> Launch:
    """The launch: a CTA per request and KV head, threads (lanes of a head, heads of the group, rows of keys)."""
    batch, kv_heads, group = len(a.q), a.k.shape[2], a.group
    return ptx.module("paged_decode")[f"paged_decode_f16_g{group}"].prepare(
        device_of(a.device),
        grid=(batch, kv_heads),
        block=(LANES, group, THREADS // (LANES * group)),
        args=arguments(a),
    )


def arguments(a: PagedDecodeArguments) -> list[Any]:
    """The kernel's parameters in order."""
    pages = [a.kv_indptr, a.kv_indices, a.kv_last_page_len]
    sizes = [a.k.shape[1], a.k.shape[2], a.sm_scale * math.log2(math.e)]
    return [a.q, a.k, a.v, *pages, a.out, a.lse, *sizes]


def run(a: PagedDecodeArguments) -> tuple[LaunchRecord, ...]:
    if len(a.q) == 0:
        return ()
    launch = prepare(a)
    on_gpu = a.device.type == "cuda"
    report = device_of(a.device).run(launch)
    reason = "its tensors live on the GPU" if on_gpu else "its tensors live on the CPU"
    return (LaunchRecord(launch.kernel.name, "cuda" if on_gpu else "emulator", reason, launch.geometry.grid, report),)
