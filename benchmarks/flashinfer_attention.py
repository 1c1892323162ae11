"""Our Triton decode and extend beside FlashInfer's kernels, on one GPU in one run.

PYTHONPATH=. python benchmarks/flashinfer_attention.py: bf16, heads of 128 dims, pages of 16 in random order. Every
result is compared with FlashInfer's first. Times are medians of replays of a captured graph with the L2 cache cleared
before each; the implementations take turns, and plans are made before. FlashInfer compiles its kernels at the first use
(minutes). A peer that fails is left out, with the reason.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from datetime import date

import torch
import triton
from timing import Graphed, difference, microseconds

from sglab import kernels

PAGE, DIM = 16, 128
TOLERANCE = 2e-2
ROUNDS = 3
WORKSPACE_BYTES = 512 << 20

DECODES = (
    *((1, 8192, 32, 8), (8, 2048, 32, 8), (8, 16384, 32, 8), (32, 4096, 32, 8)),
    *((64, 1024, 64, 8), (128, 4096, 64, 8), (32, 4096, 32, 32), (16, 8192, 40, 8)),
)
"""Requests, tokens of each, heads, KV heads."""

EXTENDS = (
    *((1, 0, 4096, 32, 8), (4, 4096, 1024, 32, 8), (16, 1024, 256, 32, 8)),
    *((1, 16384, 2048, 32, 32), (8, 0, 1024, 64, 8), (2, 8192, 512, 40, 8)),
)
"""Requests, prefix, new tokens, heads, KV heads."""

Run = Callable[[], torch.Tensor]


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.bfloat16, device="cuda")


def every(batch: int, count: int) -> torch.Tensor:
    """The indptr of requests of equal lengths."""
    return torch.arange(batch + 1, dtype=torch.int32, device="cuda") * count


class Cache:
    """K and V [pages, 16, KV heads, 128] of requests of equal lengths, and the same keys as slots."""

    def __init__(self, batch: int, length: int, kv_heads: int) -> None:
        width = length // PAGE
        self.k, self.v = (randn(batch * width, PAGE, kv_heads, DIM) for _ in range(2))
        self.pages = torch.randperm(batch * width, device="cuda").int()
        self.pages_indptr, self.slots_indptr = every(batch, width), every(batch, length)
        within = torch.arange(PAGE, device="cuda")
        self.slots = (self.pages.long()[:, None] * PAGE + within).flatten()
        self.last = torch.full((batch,), PAGE, dtype=torch.int32, device="cuda")

    @property
    def rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.k.flatten(0, 1), self.v.flatten(0, 1)


def prefill(cache: Cache, q: torch.Tensor, count: int, backend: str) -> Run:
    """FlashInfer's paged prefill of the same number of new tokens for each request."""
    import flashinfer

    workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(workspace, backend=backend)
    arrays = (every(len(cache.last), count), cache.pages_indptr, cache.pages, cache.last)
    shape = (q.shape[1], cache.k.shape[2], DIM, PAGE)
    wrapper.plan(*arrays, *shape, causal=True, q_data_type=q.dtype, kv_data_type=q.dtype)
    out = torch.empty_like(q)
    return lambda: wrapper.run(q, (cache.k, cache.v), out=out)


def decodes(batch: int, length: int, heads: int, kv_heads: int) -> dict[str, Callable[[], Run]]:
    cache, q = Cache(batch, length, kv_heads), randn(batch, heads, DIM)

    def ours() -> Run:
        most, sms = 32, torch.cuda.get_device_properties(0).multi_processor_count
        splits = torch.zeros(batch, dtype=torch.int32, device="cuda")
        lens = torch.full_like(splits, length)
        kernels.get_num_kv_splits(splits, lens, heads, kv_heads, most, sms)
        partials = torch.empty(batch, heads, most, DIM, device="cuda")
        lse, o = torch.empty(batch, heads, most, device="cuda"), torch.empty_like(q)
        k, v = cache.rows
        arrays = (cache.slots_indptr, cache.slots, partials, lse, splits, most, DIM**-0.5)

        def run() -> torch.Tensor:
            kernels.decode_attention_fwd(q, k, v, o, *arrays)
            return o

        return run

    def decode() -> Run:
        import flashinfer

        workspace = torch.zeros(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace)
        arrays, shape = (cache.pages_indptr, cache.pages, cache.last), (heads, kv_heads, DIM, PAGE)
        wrapper.plan(*arrays, *shape, q_data_type=q.dtype, kv_data_type=q.dtype)
        out = torch.empty_like(q)
        return lambda: wrapper.run(q, (cache.k, cache.v), out=out)

    return {
        "ours": ours,
        "decode": decode,
        "fa2": lambda: prefill(cache, q, 1, "fa2"),
        "fa3": lambda: prefill(cache, q, 1, "fa3"),
    }


def extends(batch: int, prefix: int, new: int, heads: int, kv_heads: int) -> dict[str, Callable[[], Run]]:
    cache, q = Cache(batch, prefix + new, kv_heads), randn(batch * new, heads, DIM)

    def ours() -> Run:
        slots = cache.slots.view(batch, -1)
        before, own = slots[:, :prefix].flatten().contiguous(), slots[:, prefix:].flatten()
        k_buffer, v_buffer = cache.rows
        k, v, o = k_buffer[own], v_buffer[own], torch.empty_like(q)
        indptr, kv_indptr = every(batch, new), every(batch, prefix)

        def run() -> torch.Tensor:
            arrays = (k_buffer, v_buffer, indptr, kv_indptr, before, None, True, None, new)
            kernels.extend_attention_fwd(q, k, v, o, *arrays)
            return o

        return run

    return {
        "ours": ours,
        "fa2": lambda: prefill(cache, q, new, "fa2"),
        "fa3": lambda: prefill(cache, q, new, "fa3"),
    }


def measured(makers: dict[str, Callable[[], Run]]) -> tuple[dict[str, float], list[str]]:
    """µs of all that run and agree with the first peer that does; and why others do not."""
    runs: dict[str, Run] = {}
    notes, truth = [], None
    for name in sorted(makers, key=lambda name: name == "ours"):
        try:
            run = makers[name]()
            result = run().clone()
        except Exception as failure:  # whatever a peer raises
            notes.append(f"{name} failed: {type(failure).__name__}: {str(failure).splitlines()[0][:120]}")
            continue
        truth = result if truth is None else truth
        if (wrong := difference(result, truth)) > TOLERANCE:
            notes.append(f"{name} differs by {wrong:.1e}")
            continue
        runs[name] = Graphed.of(run)
    rounds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            rounds[name].append(microseconds(run))
    return {name: statistics.median(times) for name, times in rounds.items()}, notes


def table(
    title: str, shapes: tuple[tuple[int, ...], ...], makers_of: Callable[..., dict[str, Callable[[], Run]]]
) -> None:
    ratios = []
    print(f"\n{title}")
    for shape in shapes:
        makers = makers_of(*shape)
        times, notes = measured(makers)
        peers = {name: time for name, time in times.items() if name != "ours"}
        line = f"{shape!s:28}" + "".join(f"{name:>8} {times[name]:8.1f}" for name in makers if name in times)
        if peers and "ours" in times:
            ratios.append(min(peers.values()) / times["ours"])
            line += f"   best peer / ours {ratios[-1]:.2f}"
            line += f", fa3 / ours {peers['fa3'] / times['ours']:.2f}" if "fa3" in peers else ""
        print(line + "".join(f"  [{note}]" for note in notes), flush=True)
        torch.cuda.empty_cache()
    if ratios:
        print(f"geometric mean of best peer / ours over {len(ratios)} shapes: {statistics.geometric_mean(ratios):.2f}")


def main() -> None:
    torch.manual_seed(torch.seed())
    print(f"{date.today()}, {torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}")
    table("Decode: requests, tokens, heads, KV heads; µs", DECODES, decodes)
    table("Extend: requests, prefix, new tokens, heads, KV heads; µs", EXTENDS, extends)


if __name__ == "__main__":
    main()
