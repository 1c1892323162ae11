"""What calls cost on the host: µs from one call to the next, the GPU never full: python benchmarks/host_time.py"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from mla_peers import SCALE, Batch, missing, prepare_ours
from mla_peers import flash_mla as prepare_flash_mla

from sglab.gpu import CudaDevice
from sglab.kernels import (
    cutlass_mla_decode,
    cutlass_mla_get_workspace_size,
    flash_mla_with_kvcache,
    get_mla_metadata,
)

CALLS = 200
"""In a row; fewer than a GPU's queue holds."""


def host_microseconds(call: Callable[[], object], synchronize: Callable[[], object] = torch.cuda.synchronize) -> float:
    for _ in range(20):
        call()
    runs = []
    for _ in range(9):
        synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        runs.append((time.perf_counter() - start) / CALLS * 1e6)
    synchronize()
    return statistics.median(runs)


@triton.jit
def _empty(q, kv, page_table, works, out, lse, partial_out, partial_lse, batch, heads, scale, BLOCK: tl.constexpr):
    pass


def host_calls(device: CudaDevice) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls of a step of one request with 256 tokens, whose GPU work is next to nothing: (what it is, the call)."""
    batch = Batch.random(1, 256, 128)
    ours = prepare_ours(device, batch)
    q_nope, q_pe = batch.q.split([512, 64], -1)
    tensors = (q_nope, q_pe, batch.kv, batch.page_table)
    attention, lse = ours.launches[0], torch.empty(1, 128, device=batch.q.device)

    def triton_launch() -> None:
        w, d = ours.decode.works.works, ours.decode
        _empty[(2, 66)](
            batch.q, batch.kv, batch.page_table, w, ours.out, lse, d.partial_out, d.partial_lse, 1, 128, SCALE, 64
        )

    yield "Triton's launcher, an empty kernel of as many arguments", triton_launch
    yield "CudaDevice.run, a bound launch", lambda: device.run(attention)
    yield (
        "MlaSm90.run into given outputs, planned before",
        lambda: ours.decode.run(*tensors, sm_scale=SCALE, out=ours.out, lse=lse),
    )
    yield "MlaSm90.run, planned before", lambda: ours.decode.run(*tensors, sm_scale=SCALE)
    yield from _operators(batch)


def _operators(batch: Batch) -> Iterator[tuple[str, Callable[[], Any]]]:
    q_nope, q_pe = batch.q.split([512, 64], -1)
    lengths = torch.full((batch.size,), batch.tokens, dtype=torch.int32, device=batch.q.device)
    workspace = torch.empty(
        cutlass_mla_get_workspace_size(batch.tokens, batch.size), dtype=torch.uint8, device=batch.q.device
    )
    arguments = (q_nope, q_pe, batch.kv, lengths, batch.page_table, workspace, SCALE)
    on_host = [batch.tokens] * batch.size
    yield (
        "cutlass_mla_decode with seq_lens_cpu, planned once per step",
        lambda: cutlass_mla_decode(*arguments, seq_lens_cpu=on_host),
    )
    yield "cutlass_mla_decode without, planned on the GPU at every call", lambda: cutlass_mla_decode(*arguments)
    yield "get_mla_metadata", lambda: get_mla_metadata(lengths, batch.heads)
    metadata = get_mla_metadata(lengths, batch.heads)
    q, kv = batch.q.unsqueeze(1), batch.kv.unsqueeze(2)
    yield (
        "flash_mla_with_kvcache, with its metadata",
        lambda: flash_mla_with_kvcache(q, kv, batch.page_table, lengths, 512, *metadata, softmax_scale=SCALE),
    )
    if missing("FlashMLA") is None:
        yield "FlashMLA's own flash_mla_with_kvcache, with its metadata", prepare_flash_mla(batch)


if __name__ == "__main__":
    for name, call in host_calls(CudaDevice()):
        print(f"{name:64} {host_microseconds(call):7.1f} µs", flush=True)
