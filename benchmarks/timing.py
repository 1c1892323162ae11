"""Timing on a GPU: our time beside a peer's, both beside what the device can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import triton.testing


@dataclass(frozen=True)
class Case:
    """One comparison. `ours` and `peer` compute the same; each returns its result.

    nbytes, flop: what cannot be done without: each input read once, each output written once, each product once
    tolerance: largest difference from the peer, relative to 1 + |result|, before the case is refused
    """

    name: str
    ours: Callable[[], torch.Tensor]
    peer: Callable[[], torch.Tensor]
    nbytes: float
    flop: float = 0.0
    tolerance: float = 0.0


def microseconds(function: Callable[[], object]) -> float:
    """Median time of a call, with the L2 cache cleared before each."""
    return 1000 * triton.testing.do_bench(function, warmup=25, rep=100, return_mode="median")


@dataclass(frozen=True)
class Graphed:
    """Replays of a graph of one call, so that the host's part is not in its time. It holds what the call works on."""

    run: Callable[[], torch.Tensor]
    graph: torch.cuda.CUDAGraph

    @staticmethod
    def of(run: Callable[[], torch.Tensor]) -> Graphed:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            run()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            run()
        return Graphed(run, graph)

    def __call__(self) -> None:
        self.graph.replay()


def copy_bandwidth() -> float:
    """Bytes per second, read and written together, of a large device copy: the ceiling of all that is memory-bound."""
    source = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / (microseconds(lambda: target.copy_(source)) * 1e-6)


def difference(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest |actual − expected| / (1 + |expected|); infinite if anything is NaN."""
    error = (actual.float() - expected.float()).abs() / (1 + expected.float().abs())
    return float(error.nan_to_num(torch.inf).max())


def print_head(title: str) -> None:
    print(f"\n{title}")
    print(f"{'case':50} {'ours µs':>9} {'peer µs':>9} {'peer/ours':>9} {'GB/s':>7} {'% copy':>7} {'TFLOPS':>7}")


def print_row(case: Case, ceiling: float) -> None:
    """Check the results against each other, time both, print a line."""
    wrong = difference(case.ours(), case.peer())
    if wrong > case.tolerance:
        print(f"{case.name:50} WRONG: differs from its peer by {wrong:.2e}, more than {case.tolerance:.0e}; not timed")
        return
    ours, peer = microseconds(case.ours), microseconds(case.peer)
    bandwidth = case.nbytes / (ours * 1e-6)
    tflops = f"{case.flop / ours / 1e6:7.1f}" if case.flop else f"{'–':>7}"
    print(
        f"{case.name:50} {ours:9.1f} {peer:9.1f} {peer / ours:9.2f} {bandwidth / 1e9:7.0f} "
        f"{100 * bandwidth / ceiling:6.1f}% {tflops}"
    )
