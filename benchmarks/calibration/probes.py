"""What one access costs on a GPU, by pattern and by how many warps and SMs ask: from kernels/probes.cu."""

from __future__ import annotations

from typing import Any

import torch
from calibration.shipped import kernel

from sglab.gpu import CudaDevice

TRIPS = 256
CACHED, OWN = 2**15, 2**18  # bytes per CTA
STRIDES = (0, 4, 8, 16, 32, 64, 128)
VECTOR_STRIDES = (0, 16, 32, 64, 128, 512)


def _cycles(device: CudaDevice, name: str, ctas: int, threads: int, stride: int, nbytes: int) -> float:
    """Per warp-instruction of one SM. nbytes: of a CTA, or lines of all."""
    memory = torch.zeros(max(ctas * nbytes, OWN), dtype=torch.uint8, device=device.torch_device)
    times = []
    for trips in (TRIPS, 3 * TRIPS):
        out = torch.zeros(ctas, dtype=torch.int64, device=device.torch_device)
        for _ in range(3):
            kernel("probes", name).launch(device, ctas, threads, args=[out, memory, trips, stride, nbytes])
        device.synchronize()
        times.append(int(out.max()))
    return (times[1] - times[0]) / (2 * TRIPS * threads / 32)


def _placement(device: CudaDevice, ctas: int, threads: int) -> dict[str, list[int]]:
    out = torch.zeros(2 * ctas, dtype=torch.int64, device=device.torch_device)
    for _ in range(2):
        kernel("probes", "placement").launch(device, ctas, threads, args=[out, 20_000])
    device.synchronize()
    sms, starts = out.view(ctas, 2).T.tolist()
    return {"sm": sms, "start_ns": [start - min(starts) for start in starts]}


def measure(device: CudaDevice) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for name in ("store_words", "store_vectors", "load_words", "load_cached", "reduce_global"):
        nbytes = CACHED if name == "load_cached" else OWN
        for ctas in (1, device.sms):
            for threads in (128, 1024):
                key = f"{name}_cycles_by_stride, {ctas} CTAs × {threads}"
                strides = VECTOR_STRIDES if name == "store_vectors" else STRIDES
                figures[key] = {str(stride): _cycles(device, name, ctas, threads, stride, nbytes) for stride in strides}
    for name in ("reduce_same", "reduce_same_float"):
        for ctas in (1, device.sms):
            for lines in (1, 8, 128, 1024):
                figures[f"{name}_cycles_by_lanes, {ctas} CTAs, {lines} lines"] = {
                    str(lanes): _cycles(device, name, ctas, 256, lanes, lines) for lanes in (1, 8, 32, -8, -32)
                }
    for name in ("reduce_shared", "reduce_shared_banks", "store_shared"):
        for threads in (32, 128, 1024):
            figures[f"{name}_cycles_by_ways, {threads} threads"] = {
                str(ways): _cycles(device, name, 1, threads, ways, CACHED) for ways in (1, 2, 4, 8, 16, 32)
            }
    for ctas, threads in ((132, 256), (600, 128), (600, 256), (600, 1024)):
        figures[f"placement of {ctas} CTAs × {threads}"] = _placement(device, ctas, threads)
    return figures
