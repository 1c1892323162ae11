"""Runs the microbenchmarks on a GPU. Every figure is a plain number with its unit in the name."""

from __future__ import annotations

import torch
from calibration.gpu_time import launch_seconds
from microbench import access, chains, wgmma
from microbench.bench import Bench, Figures, ring

from sglab import gpu
from sglab.gpu import TensorMap


def instruction_figures(bench: Bench) -> Figures:
    """Cycles per repetition: of one chain in one warp (latency), and divided among all warps' chains (throughput)."""
    module = gpu.Module(chains.module(), "chains")
    figures: Figures = {}
    for chain in chains.INSTRUCTIONS:

        def slope(number: int, warps: int, chain: chains.Chain = chain) -> float:
            kernel = module[chains.entry_name(chain, number)]
            short, long = (bench.cycles(kernel, 32 * warps, [trips, 3, 5]) for trips in (8, 40))
            return (long - short) / (32 * chains.UNROLL)

        figures[chain.name] = {
            "instructions": chain.count,
            "latency_cycles": slope(1, 1),
            "one_warp_4_chains_cycles": slope(4, 1) / 4,
            "cycles_per_warp_instruction": {str(warps): slope(4, warps) / (4 * warps) for warps in chain.warps},
        }
    return figures


def wgmma_figures(bench: Bench) -> Figures:
    """Cycles per group of products, by size of the group, for one and for two warpgroups."""
    module = gpu.Module(wgmma.module(), "wgmma")
    figures: Figures = {}
    for product in wgmma.PRODUCTS:
        for warpgroups in (1, 2):
            rows = {}
            for group in wgmma.GROUPS:
                kernel = module[wgmma.entry_name(product, group)]
                short, long = (bench.cycles(kernel, 128 * warpgroups, [trips]) for trips in (8, 40))
                rows[str(group)] = (long - short) / 32
            figures[f"{product.name}_{warpgroups}wg"] = rows
    return figures


def latency_figures(bench: Bench) -> Figures:
    def chase(name: str, memory: torch.Tensor, steps: int, warm: bool) -> float:
        kernel = bench.named(name)
        if warm:
            bench.cycles(kernel, 1, [memory, steps])
            return bench.cycles(kernel, 1, [memory, steps]) / steps
        torch.zeros(2**26, dtype=torch.int64, device=memory.device)  # fills the L2 cache
        return int(bench.launch(kernel, 1, 1, [bench.out, memory, steps])[0]) / steps

    figures: Figures = {
        "l1_load_cycles": chase("chase_l1", ring(bench, 64, 128), 2048, True),
        "l2_load_cycles": chase("chase_l2", ring(bench, 4096, 128), 4096, True),
        "l2_load_32mb_cycles": chase("chase_l2", ring(bench, 2**18, 128), 2**18, True),
        "hbm_load_cycles": chase("chase_l2", ring(bench, 2**17, 8192), 4096, False),
    }
    counter = torch.zeros(1, dtype=torch.int32, device=bench.device.torch_device)
    figures["atom_global_cycles"] = bench.cycles(bench.named("chase_atomic"), 1, [counter, 1024]) / 1024

    block = torch.zeros(2**21, dtype=torch.uint8, device=bench.device.torch_device)
    tile = torch.zeros(256, 64, dtype=torch.bfloat16, device=bench.device.torch_device)
    names = ("bulk_load", "tensor_load_64x64_bf16", "bulk_store_read", "bulk_store_written")
    for nbytes in (16, 128, 1024, 4096, 8192, 16_384, 32_768, 65_536):
        args = [bench.out, block, TensorMap(tile, (64, 64), swizzle=128), nbytes, 64]
        for _ in range(2):
            out = bench.launch(bench.named("copy_latency"), 1, 1, args, smem=65_536)
        for number, name in enumerate(names):
            figures.setdefault(f"{name}_cycles_by_bytes", {})[str(nbytes)] = int(out[number]) / 64
    for threads in (32, 128, 512):
        for depth in (1, 2, 4, 8):
            args = [block, depth, 64]
            cycles = bench.cycles(bench.named("cp_async"), threads, args, smem=16 * threads * depth) / 64
            figures.setdefault("cp_async_cycles", {})[f"{threads} threads × {depth}"] = cycles
    out = [bench.launch(bench.named("mbarriers"), 1, 64, [bench.out, 1024]) for _ in range(2)][-1]
    for number, name in enumerate(("mbarrier_arrive_wait", "mbarrier_ping_pong_round", "mbarrier_arrive")):
        figures[f"{name}_cycles"] = int(out[number]) / 1024
    for threads in (32, 256):
        kernel = bench.named("cluster")
        for _ in range(2):
            kernel.launch(bench.device, 2, threads, cluster=2, args=[bench.out, 1024])
            bench.device.synchronize()
        figures[f"cluster_barrier_{threads}_threads_cycles"] = int(bench.out[0]) / 1024
        figures[f"dsmem_load_{threads}_threads_cycles"] = int(bench.out[1]) / 1024
    return figures


def bandwidth_figures(bench: Bench) -> Figures:
    figures: Figures = {}
    device, sms = bench.device, bench.device.sms
    memory = torch.zeros(2**30, dtype=torch.uint8, device=device.torch_device)
    sink = torch.zeros(4, dtype=torch.int32, device=device.torch_device)
    for warps in (1, 4, 16, 32):
        cycles = bench.cycles(bench.named("l1_bandwidth"), 32 * warps, [memory, 512])
        figures.setdefault("l1_bytes_per_cycle_by_warps", {})[str(warps)] = 4 * 512 * 512 * warps / cycles

    def read(ctas: int, nbytes: int, passes: int) -> float:
        args = [memory, nbytes // 16, passes, sink]
        launch = bench.named("read_stream").prepare(device, ctas, 1024, args=args)
        return nbytes * passes / launch_seconds(device, launch, count=4, repeats=5) / 1e9

    for ctas in (1, 2, 8, 33, 66, sms, 2 * sms):
        small, large = (2**22, 2**26) if ctas < 33 else (2**24, 2**30)
        figures.setdefault("l2_read_gbs_by_ctas", {})[str(ctas)] = read(ctas, small, 8)
        figures.setdefault("hbm_read_gbs_by_ctas", {})[str(ctas)] = read(ctas, large, 1)
    for nbytes in (2**20, 2**22, 2**24, 2**25, 3 * 2**24, 2**26):
        figures.setdefault("read_gbs_by_bytes", {})[str(nbytes)] = read(2 * sms, nbytes, 8)
    for nbytes in (2**24, 2**30):
        args = [memory, nbytes // 16, 7]
        launch = bench.named("write_stream").prepare(device, 2 * sms, 1024, args=args)
        seconds = launch_seconds(device, launch, count=4, repeats=5)
        figures.setdefault("write_gbs_by_bytes", {})[str(nbytes)] = nbytes / seconds / 1e9
    for nbytes in (2048, 8192, 16_384):
        for ctas in (1, 33, sms):
            for passes, chunks, name in ((32, 2**17 // nbytes, "l2"), (1, 2**22 // nbytes, "hbm")):
                if name == "hbm":
                    memory.zero_()
                args = [bench.out, memory, nbytes, chunks, passes, 1]
                if name == "l2":
                    bench.launch(bench.named("bulk_stream"), ctas, 32, args, smem=8 * nbytes)
                cycles = int(bench.launch(bench.named("bulk_stream"), ctas, 32, args, smem=8 * nbytes)[:ctas].max())
                key = f"bulk_stream_{name}_bytes_per_cycle_per_sm"
                figures.setdefault(key, {})[f"{ctas} CTAs × {nbytes} bytes"] = chunks * passes * nbytes / cycles
    return figures


def launch_figures(bench: Bench) -> Figures:
    figures: Figures = {}
    for grid in (1, bench.device.sms, 8 * bench.device.sms, 64 * bench.device.sms):
        for block, smem in ((32, 0), (256, 0), (1024, 0), (256, 200_000)):
            launch = bench.named("empty").prepare(bench.device, grid, block, smem=smem)
            seconds = launch_seconds(bench.device, launch)
            figures.setdefault("empty_kernel_us", {})[f"{grid} × {block}, {smem} bytes"] = 1e6 * seconds
    for grid in (bench.device.sms, 4 * bench.device.sms):
        out = [bench.launch(bench.named("waves"), grid, 1024, [bench.out, 10_000]) for _ in range(2)][-1]
        times = out[: 2 * grid].reshape(grid, 2)
        times = times - times.min()
        figures[f"waves_of_{grid}_ctas_ns"] = {
            "starts": times[:, 0].sort().values[:: max(1, grid // 33)].tolist(),
            "ends": times[:, 1].sort().values[:: max(1, grid // 33)].tolist(),
        }
    clock = bench.launch(bench.named("clock_rate"), 1, 32, [bench.out, 10_000_000, 0.5])
    figures["clock_ghz_one_warp"] = int(clock[0]) / int(clock[1])
    clock = bench.launch(bench.named("clock_rate"), 4 * bench.device.sms, 512, [bench.out, 4_000_000, 0.5])
    figures["clock_ghz_all_sms"] = int(clock[0]) / int(clock[1])
    return figures


PARTS = (instruction_figures, wgmma_figures, latency_figures, bandwidth_figures, launch_figures, *access.PARTS)
