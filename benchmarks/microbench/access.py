"""Runs the microbenchmarks of code and access patterns on a GPU. Every figure is a plain number with its unit in the
name."""

from __future__ import annotations

from pathlib import Path

import torch
from calibration.gpu_time import launch_seconds
from microbench import code
from microbench.bench import Bench, Figures, ring

from sglab import gpu

SOURCE = Path(__file__).with_name("access.cu")
GIB = 2**30


def code_figures(bench: Bench) -> Figures:
    """Cycles per instruction of straight-line code, by size, trip by trip; and of a branch. Fresh: the module has just
    been loaded; warm: the launch before ran the same code; cold: other memory filled the L2 cache in between."""
    module = gpu.Module(code.module(), "code")
    figures: Figures = {}
    for warps in (1, 4):
        for size in code.SIZES:
            rows = {}
            for name in ("fresh", "warm", "cold"):
                if name == "cold":
                    torch.zeros(2**26, dtype=torch.int64, device=bench.device.torch_device)
                out = bench.launch(module[f"straight_{size}"], 1, 32 * warps, [bench.out])
                rows[name] = [int(cycles) / size for cycles in out[: code.TRIPS]]
            figures.setdefault(f"straight_cycles_per_instruction_{warps}_warps", {})[str(size)] = rows
    for name in ("taken", "passed"):
        short, long = (bench.cycles(module[f"branches_{name}"], 1, [trips, 1]) for trips in (16, 80))
        figures[f"branch_{name}_cycles"] = (long - short) / (64 * code.BRANCHES)
    return figures


def pattern_figures(bench: Bench) -> Figures:
    device, sms, memory = bench.device, bench.device.sms, gpu.load(SOURCE, "sm_90a")
    zeros = torch.zeros(GIB, dtype=torch.uint8, device=device.torch_device)
    figures: Figures = {}
    for megabytes in (1, 4, 8, 16, 24, 32):
        nodes = ring(bench, megabytes * 2**13, 128)
        for name, kernel in (("cached", bench.named("chase_l2")), ("streaming", memory["chase_streaming"])):
            zeros.add_(1)  # the L2 cache is full of other data, of which none goes first
            steps = [bench.launch(kernel, 1, 1, [bench.out, nodes, len(nodes) // 16]) for _ in range(3)]
            cycles = [int(out[0]) / (len(nodes) // 16) for out in steps]
            figures.setdefault(f"chase_{name}_cycles_by_mib_and_launch", {})[str(megabytes)] = cycles
    zeros.zero_()
    for stride in (4, 32, 64, 128, 512, 4096, 65_536):
        out = [bench.launch(memory["scattered"], 1, 32, [bench.out, zeros, stride, 256]) for _ in range(2)][-1]
        figures.setdefault("scattered_load_cycles_by_stride", {})[str(stride)] = int(out[0]) / 256
    sink = torch.zeros(4, dtype=torch.int32, device=device.torch_device)
    for name, bits, vectors in (("hbm", 30, 2**24), ("l2", 24, 2**22)):
        for row_bits in (5, 6, 7, 8, 9, 11, 13):
            args = [zeros, bits, row_bits, vectors, sink]
            launch = memory["gather_rows"].prepare(device, 4 * sms, 512, args=args)
            seconds = launch_seconds(device, launch, count=8, repeats=5)
            figures.setdefault(f"gather_{name}_gbs_by_row_bytes", {})[str(2**row_bits)] = 16 * vectors / seconds / 1e9
    for group in (1, 2, 4, 8, sms):
        args = [bench.out, zeros, 16_384, 8, 32, group]
        out = [bench.launch(bench.named("bulk_stream"), sms, 32, args, smem=8 * 16_384) for _ in range(2)][-1]
        rate = 8 * 32 * 16_384 / int(out[:sms].max())
        figures.setdefault("bulk_shared_bytes_per_cycle_per_sm_by_group", {})[str(group)] = rate
    return figures


def cold_figures(bench: Bench) -> Figures:
    """us that launches take when the launch before read 256 MiB of other memory, and when it did not."""
    device, sms, memory = bench.device, bench.device.sms, gpu.load(SOURCE, "sm_90a")
    other = torch.zeros(2**28, dtype=torch.uint8, device=device.torch_device)
    own = torch.zeros(2**22, dtype=torch.int32, device=device.torch_device)
    sink = torch.zeros(4, dtype=torch.int32, device=device.torch_device)
    flush = bench.named("read_stream").prepare(device, 2 * sms, 1024, args=[other, 2**24, 1, sink])
    figures: Figures = {}
    for grid in (8, sms, 2 * sms):
        launches = {
            "empty": bench.named("empty").prepare(device, grid, 256),
            "load": memory["touch_load"].prepare(device, grid, 256, args=[own, sink]),
            "store": memory["touch_store"].prepare(device, grid, 256, args=[own]),
        }
        for name, launch in launches.items():
            rows = {"warm": launch_seconds(device, launch), "cold": launch_seconds(device, launch, before=[flush])}
            figures[f"{name}_us_{grid}_ctas"] = {key: 1e6 * seconds for key, seconds in rows.items()}
    return figures


PARTS = (code_figures, pattern_figures, cold_figures)
