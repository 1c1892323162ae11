"""How long launches take on a GPU, free of the host: timed inside CUDA graphs."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import torch

from sglab.gpu import CudaDevice, Launch


def graph_of(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """`work`, run once and captured."""
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def replay_seconds(graph: torch.cuda.CUDAGraph, repeats: int) -> float:
    """Median time of a replay."""
    for _ in range(3):
        graph.replay()
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e-3)
    return statistics.median(times)


def launch_seconds(
    device: CudaDevice, launch: Launch, before: Sequence[Launch] = (), count: int = 20, repeats: int = 15
) -> float:
    """Time from a launch to the next in a chain of equal ones. `before`: launched in front of each and not counted."""

    def chain(launches: Sequence[Launch], length: int) -> torch.cuda.CUDAGraph:
        def work() -> None:
            for _ in range(length):
                for one in launches:
                    device.run(one)

        return graph_of(work)

    def per_launch(launches: Sequence[Launch]) -> float:
        short, long = (replay_seconds(chain(launches, length), repeats) for length in (count // 4, count))
        return (long - short) / (count - count // 4)

    return per_launch([*before, launch]) - (per_launch(before) if before else 0.0)


def occupancy(device: CudaDevice, launch: Launch) -> dict[str, int]:
    """What the driver's compiler made of a kernel: registers per thread, spilled bytes, resident CTAs per SM."""
    from cuda.bindings import driver

    function = device._function(launch)

    def attribute(name: str) -> int:
        return driver.cuFuncGetAttribute(getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}"), function)[1]

    x, y, z = launch.geometry.block
    ctas = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, x * y * z, launch.geometry.smem)[1]
    return {"registers": attribute("NUM_REGS"), "local_bytes": attribute("LOCAL_SIZE_BYTES"), "ctas_per_sm": int(ctas)}
