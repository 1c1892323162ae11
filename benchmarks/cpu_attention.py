"""Attention on the host beside PyTorch's scaled_dot_product_attention, in one run: python benchmarks/cpu_attention.py

PyTorch gets contiguous K and V [batch, kv_heads, keys, dim]. Ours reads the same tensors ("same"), and pages of 16
slots of a pool [slots, kv_heads, dim] in random order ("pool"), as the engine has them, memory included. Decode is
asked of PyTorch in two ways: as it is called (enable_gqa), and with the heads that share a KV head as the rows of one
query ("rows").
Extend: as many new tokens as a quarter of the keys, PyTorch with the mask that this needs; prefill: is_causal.

Beside decode stand two bounds, in the same turns: "read" adds up the pool's K and V, the same bytes once, with PyTorch;
"products" is ours with a page table that names one page again and again, which stays in the cache.

Every result is compared with float64 first. Functions take turns and the least of many counts, for the machine may be
busy: CPU time on one thread (which waiting does not count), wall time on more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from sglab.engine.cache.zeroed import zeroed
from sglab.kernels import cpu_launch as launch
from sglab.kernels.scoring import Scoring, dense_attention

TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}
PAGE = 16


@dataclass(frozen=True)
class Case:
    """Sizes: requests, query heads, KV heads, dims, keys, new tokens."""

    kind: str
    batch: int
    heads: int
    kv_heads: int
    dim: int
    keys: int
    new: int


CASES = [
    Case("decode", 8, 32, 8, 128, 1024, 1),
    Case("decode", 1, 16, 16, 128, 4096, 1),
    Case("decode", 4, 8, 8, 64, 1024, 1),
    Case("decode", 1, 32, 8, 128, 8192, 1),
    Case("extend", 1, 16, 4, 128, 1024, 256),
    Case("extend", 2, 8, 8, 64, 1024, 256),
    Case("prefill", 1, 8, 8, 128, 1024, 1024),
    Case("prefill", 1, 8, 2, 128, 1024, 1024),
    Case("prefill", 2, 8, 8, 64, 512, 512),
]


class Tensors:
    """A case's tensors in PyTorch's layout and in a pool's."""

    def __init__(self, case: Case, dtype: torch.dtype) -> None:
        self.case = c = case
        self.q = torch.randn(c.batch, c.heads, c.new, c.dim).to(dtype)
        self.k, self.v = (torch.randn(c.batch, c.kv_heads, c.keys, c.dim).to(dtype) for _ in "kv")
        pages = c.keys // PAGE
        self.table = torch.randperm(c.batch * pages).int().view(c.batch, pages)
        self.pool = []
        for x in (self.k, self.v):
            rows = x.transpose(1, 2).reshape(c.batch * pages, PAGE, c.kv_heads, c.dim)
            buffer = zeroed(tuple(rows.shape), dtype, "cpu")  # as the engine's: the system gives it huge pages
            buffer[self.table.flatten().long()] = rows
            self.pool.append(buffer)
        self.rows = self.q.transpose(1, 2).reshape(c.batch * c.new, c.heads, c.dim)

    def ours(self, pool: bool, isa: str, one_page: bool = False) -> Callable[[], torch.Tensor]:
        c, out = self.case, torch.empty_like(self.rows)
        lengths = torch.full((c.batch,), c.keys, dtype=torch.int32)
        table = torch.zeros_like(self.table) if one_page else self.table
        source = launch.KeySource(*self.pool, lengths, table=table)
        if not pool:
            whole = torch.arange(c.batch, dtype=torch.int32)[:, None]
            source = launch.KeySource(self.k.transpose(1, 2), self.v.transpose(1, 2), lengths, table=whole)
        starts = torch.arange(c.batch, dtype=torch.int32) * c.new
        count = torch.full((c.batch,), c.new, dtype=torch.int32)
        call = launch.CpuCall(self.rows, out, None, starts, count, source, Scoring(c.dim**-0.5), right=0, isa=isa)

        def run() -> torch.Tensor:
            call.run()
            return out

        return run

    def theirs(self) -> dict[str, Callable[[], torch.Tensor]]:
        c, q, k, v = self.case, self.q, self.k, self.v
        if c.new == 1:
            grouped = q.view(c.batch, c.kv_heads, c.heads // c.kv_heads, c.dim)
            return {
                "sdpa": lambda: sdpa(q, k, v, enable_gqa=c.heads != c.kv_heads),
                "sdpa, rows": lambda: sdpa(grouped, k, v),
            }
        if c.new == c.keys:
            return {"sdpa": lambda: sdpa(q, k, v, is_causal=True, enable_gqa=c.heads != c.kv_heads)}
        seen = torch.ones(c.new, c.keys, dtype=torch.bool).tril(c.keys - c.new)
        return {"sdpa": lambda: sdpa(q, k, v, attn_mask=seen, enable_gqa=c.heads != c.kv_heads)}

    def bounds(self, isa: str) -> dict[str, Callable[[], object]]:
        """Of decode: reading the pool's bytes, and multiplying what is in the cache."""
        if self.case.new > 1:
            return {}
        words = [x.view(torch.float32) for x in self.pool]  # of 16 bit two at a time: what the sum is does not matter
        return {"read": lambda: [x.sum() for x in words], "products": self.ours(True, isa, one_page=True)}

    def error(self, result: torch.Tensor) -> float:
        """Of the last request's last rows, from float64."""
        c, rows = self.case, slice(-min(self.case.new, 8), None)
        p = torch.arange(c.keys)[rows]
        k, v = (x[-1].transpose(0, 1).double() for x in (self.k, self.v))
        exact = dense_attention(self.rows[rows], k, v, p, Scoring(c.dim**-0.5), torch.arange(c.keys) <= p[:, None])[0]
        return float((result[rows].double() - exact).abs().max())


def in_turn(functions: list[Callable[[], object]], rounds: int, clock: Callable[[], float]) -> list[float]:
    """Milliseconds of each: the least of `rounds`, one after the other in each round."""
    best = [float("inf")] * len(functions)
    for _ in range(rounds):
        for i, function in enumerate(functions):
            start = clock()
            function()
            best[i] = min(best[i], clock() - start)
    return [1000 * each for each in best]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--isa", default="", help=f"one of {', '.join(launch.available_isas())}; the best by default")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16", "float16"])
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    clock = time.thread_time if asked.threads == 1 else time.perf_counter
    isa = asked.isa or launch.available_isas()[0]
    print(f"{date.today()}, torch {torch.__version__}, {isa}, {asked.threads} threads, least of {asked.rounds} in turn")
    print("kind, dtype, (batch, heads, kv heads, dim, keys, new): ms; ratio to ours in the pool / on the same tensors")
    for name in asked.dtypes:
        dtype = getattr(torch, name)
        for case in CASES:
            tensors = Tensors(case, dtype)
            mine = {"pool": tensors.ours(True, asked.isa), "same": tensors.ours(False, asked.isa)}
            for function in mine.values():
                error = tensors.error(function())
                assert error < TOLERANCE[dtype], f"{case}: {error}"
            peers = tensors.theirs()
            bounds = tensors.bounds(asked.isa)
            times = in_turn([*mine.values(), *peers.values(), *bounds.values()], asked.rounds, clock)
            pool, same = times[:2]
            sizes = (case.batch, case.heads, case.kv_heads, case.dim, case.keys, case.new)
            text = [
                f"{peer} {ms:.2f} ({ms / pool:.2f} / {ms / same:.2f})"
                for peer, ms in zip(peers, times[2 : 2 + len(peers)], strict=True)
            ]
            text += [f"{bound} {ms:.2f}" for bound, ms in zip(bounds, times[2 + len(peers) :], strict=True)]
            print(f"{case.kind}, {name}, {sizes}: pool {pool:.2f}, same {same:.2f}, {', '.join(text)}", flush=True)


if __name__ == "__main__":
    main()
