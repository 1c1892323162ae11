"""The merges and the split-KV combine on a GPU, ours in CUDA and in Triton beside FlashInfer's, in one run:
python benchmarks/merges.py

Large inputs, whose bound is the bandwidth of a device copy. Every result is compared with float64 before it is timed.
What an implementation lacks, refuses or gets wrong is said. Bytes: every input once, every output once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import torch
from timing import copy_bandwidth, difference, microseconds

from sglab.kernels import merge_state, merge_state_v2, merge_states, split_kv_combine

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1.6e-2}
PLACE = "cuda"

Call = Callable[[], torch.Tensor]


def flashinfer_merges() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """FlashInfer's merge_state and merge_states, if it is installed."""
    try:
        from flashinfer import merge_state, merge_states
    except ImportError:
        return None
    return merge_state, merge_states


@dataclass(frozen=True)
class Merge:
    """One operation on one input: its implementations by name, and the first rows of its result in float64."""

    name: str
    nbytes: int
    dtype: torch.dtype
    calls: dict[str, Call]
    expected: torch.Tensor


def pair(merge: Callable[..., Any], base: float, rows: int, dim: int, dtype: torch.dtype) -> Merge:
    v_a, v_b = (torch.randn(rows, 32, dim, device=PLACE, dtype=dtype) for _ in "ab")
    s_a, s_b = (torch.randn(rows, 32, device=PLACE) for _ in "ab")
    calls: dict[str, Call] = {
        kind: lambda kind=kind: merge(v_a, s_a, v_b, s_b, implementation=kind)[0] for kind in ("cuda", "triton")
    }
    if base == 2 and (theirs := flashinfer_merges()):
        calls["FlashInfer"] = lambda: theirs[0](v_a, s_a, v_b, s_b)[0]
    weights = torch.stack([s_a[:4], s_b[:4]]).double().mul(torch.tensor(base).double().log()).softmax(0)
    expected = (weights.unsqueeze(-1) * torch.stack([v_a[:4], v_b[:4]]).double()).sum(0)
    nbytes = 3 * (v_a.nbytes + s_a.nbytes)
    return Merge(f"{merge.__name__} {rows}×32×{dim}", nbytes, dtype, calls, expected)


def many(rows: int, n: int, dim: int, dtype: torch.dtype) -> Merge:
    v, s = torch.randn(rows, n, 32, dim, device=PLACE, dtype=dtype), torch.randn(rows, n, 32, device=PLACE)
    calls: dict[str, Call] = {
        kind: lambda kind=kind: merge_states(v, s, implementation=kind)[0] for kind in ("cuda", "triton")
    }
    if theirs := flashinfer_merges():
        calls["FlashInfer"] = lambda: theirs[1](v, s)[0]
    weights = (s[:4].double() * torch.tensor(2.0).double().log()).softmax(1)
    expected = (weights.unsqueeze(-1) * v[:4].double()).sum(1)
    nbytes = (v.nbytes + s.nbytes) * (n + 1) // n
    return Merge(f"merge_states {rows}×{n}×32×{dim}", nbytes, dtype, calls, expected)


def combine(requests: int, splits: int, dtype: torch.dtype) -> Merge:
    slots = requests * splits
    partial, lse = torch.randn(slots, 128, 512, device=PLACE), torch.randn(slots, 128, device=PLACE)
    indptr = splits * torch.arange(requests + 1, dtype=torch.int32, device=PLACE)
    rows = torch.arange(requests, dtype=torch.int32, device=PLACE)
    out, merged = torch.empty(requests, 128, 512, device=PLACE, dtype=dtype), torch.empty(requests, 128, device=PLACE)

    def ours() -> torch.Tensor:
        return split_kv_combine(partial, lse, indptr, rows, out, merged, max_splits=splits, implementation="cuda")

    weights = (lse[: 4 * splits].view(4, splits, 128).double() * torch.tensor(2.0).double().log()).softmax(1)
    expected = (weights.unsqueeze(-1) * partial[: 4 * splits].view(4, splits, 128, 512).double()).sum(1)
    nbytes = partial.nbytes + lse.nbytes + out.nbytes + merged.nbytes
    return Merge(f"split_kv_combine {requests}×{splits}×128×512", nbytes, dtype, {"cuda": ours}, expected)


def merges() -> Iterator[Merge]:
    for dtype in TOLERANCE:
        for dim, rows in ((128, 32768), (512, 8192)):
            yield pair(merge_state, 2.0, rows, dim, dtype)
            yield pair(merge_state_v2, torch.e, rows, dim, dtype)
            yield many(rows // 8, 8, dim, dtype)
        for requests, splits in ((256, 8), (64, 32), (16, 128)):
            yield combine(requests, splits, dtype)


def line(merge: Merge, names: tuple[str, ...], ceiling: float) -> str:
    found = []
    for name in names:
        if name not in merge.calls:
            found.append("–")
            continue
        try:
            wrong = difference(merge.calls[name]()[: len(merge.expected)], merge.expected)
        except Exception as failure:  # a peer's refusal
            found.append(f"{type(failure).__name__}")
            continue
        if wrong > TOLERANCE[merge.dtype]:
            found.append(f"WRONG by {wrong:.0e}")
            continue
        rate = merge.nbytes / microseconds(merge.calls[name]) * 1e6
        found.append(f"{rate / 1e9:,.0f} ({rate / ceiling:.0%})")
    label = f"{merge.name} {str(merge.dtype).removeprefix('torch.')}"
    return f"{label:46}{merge.nbytes / 1e6:>8.0f}" + "".join(f"{text:>18}" for text in found)


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("benchmarks/merges.py needs an NVIDIA GPU; none was found")
    ceiling = copy_bandwidth()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {date.today()}; copy {ceiling / 1e9:.0f} GB/s")
    print("GB/s, and of the copy; medians, cold L2 cache")
    names = ("cuda", "triton", "FlashInfer")
    print(f"{'':46}{'MB':>8}" + "".join(f"{name:>18}" for name in names))
    for merge in merges():
        print(line(merge, names, ceiling), flush=True)


if __name__ == "__main__":
    main()
