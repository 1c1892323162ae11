"""CUB and Thrust as the CUDA toolkit has them: primitives of warps and blocks, device-wide algorithms."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch

from sglab.compilers.nvcc import find_nvcc
from sglab.gpu.errors import MissingDependencyError
from tools.compatibility.case import Case, Check
from tools.compatibility.families import AbsentError, Family
from tools.compatibility.programs import Calls, called

Call = Callable[[Calls], list[Check]]
THREADS, ITEMS = 128, 4
TILE = THREADS * ITEMS
COUNT = 5_000
_TYPES = {"int": torch.int32, "float": torch.float32, "double": torch.float64}
_LOOSE = {"int": 0.0, "float": 2e-5, "double": 1e-12}


def family() -> Family:
    cases = [case for name in _TYPES for case in _collectives(name)]
    return Family("CUB and Thrust", _version(), [*cases, *_movements(), *_blocks(), *_device(), *_thrust()])


def _version() -> str:
    """CUB's version, from the header that nvcc finds."""
    try:
        home = find_nvcc().resolve().parents[1]
    except MissingDependencyError as error:
        raise AbsentError(str(error)) from None
    for root in (home, *home.parent.glob("cuda*")):
        for header in root.glob("**/include/cccl/cub/version.cuh"):
            number = int(re.search(r"#define CUB_VERSION (\d+)", header.read_text())[1])  # type: ignore[index]
            return f"CCCL {number // 100_000}.{number // 100 % 1000}.{number % 100}"
    raise AbsentError("nvcc without CCCL's headers (pip install nvidia-cuda-cccl)")


@cache
def _glue(name: str) -> str:
    return (Path(__file__).parent / "glue" / f"{name}.cu").read_text()


def _block(kernel: str, call: Call) -> Case:
    return called(kernel, "cub_blocks", _glue("cub_blocks"), call)


def _drawn(name: str, count: int) -> torch.Tensor:
    dtype = _TYPES[name]
    return torch.randint(-50, 50, (count,), dtype=dtype) if name == "int" else torch.randn(count, dtype=dtype)


def _near(got: torch.Tensor, expected: torch.Tensor, name: str) -> Check:
    return Check(got, expected, _LOOSE[name], 10 * _LOOSE[name])


def _collectives(name: str) -> list[Case]:
    dtype = _TYPES[name]
    wide = torch.int64 if name == "int" else torch.float64

    def warp_reduce(width: int) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, sums, most = _drawn(name, THREADS), *torch.zeros(2, THREADS // width, dtype=dtype)
            calls(f"warp_reduce_{width}_{name}", x, sums, most)
            groups = x.to(wide).view(-1, width)
            return [_near(sums, groups.sum(1), name), Check(most, groups.amax(1))]

        return call

    def scan(function: str, count: int, width: int) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, own, before = _drawn(name, count), *torch.zeros(2, count, dtype=dtype)
            calls(f"{function}_{name}", x, own, before)
            groups = x.to(wide).view(-1, width)
            sums = groups.cumsum(1)
            return [_near(own, sums.flatten(), name), _near(before, (sums - groups).flatten(), name)]

        return call

    def reduce(function: str) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, out = _drawn(name, TILE), torch.zeros(1, dtype=dtype)
            calls(f"{function}_{name}", x, out)
            return [_near(out, x.to(wide).sum().view(1), name)]

        return call

    def merge_sort(function: str, width: int) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, out = _drawn(name, TILE), torch.zeros(TILE, dtype=dtype)
            calls(f"{function}_{name}", x, out)
            return [Check(out, x.view(-1, width).sort(1).values.flatten())]

        return call

    def radix_sort(function: str, down: bool) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, values = _drawn(name, TILE), torch.arange(TILE, dtype=torch.int32)
            out, order = torch.zeros_like(x), torch.zeros_like(values)
            calls(f"{function}_{name}", x, values, out, order)
            expected = x.sort(descending=down, stable=True)
            return [Check(out, expected.values), Check(order, expected.indices)]

        return call

    return [
        *(_block(f"WarpReduce<{name}, {width}>", warp_reduce(width)) for width in (32, 16, 8)),
        *(_block(f"WarpScan<{name}, {w}>", scan(f"warp_scan_{w}", THREADS, w)) for w in (32, 16)),
        _block(f"WarpMergeSort<{name}>", merge_sort("warp_merge_sort", 32 * ITEMS)),
        *(
            _block(f"BlockReduce<{name}>, {way}", reduce(f"block_reduce_{way}"))
            for way in ("raking", "commutative", "warps")
        ),
        *(
            _block(f"BlockScan<{name}>, {w}", scan(f"block_scan_{w}", TILE, TILE))
            for w in ("raking", "memoize", "warps")
        ),
        _block(f"BlockRadixSort<{name}>", radix_sort("block_radix_sort", False)),
        _block(f"BlockRadixSort<{name}>, descending", radix_sort("block_radix_sort_down", True)),
        _block(f"BlockMergeSort<{name}>", merge_sort("block_merge_sort", TILE)),
    ]


def _movements() -> list[Case]:
    lanes = torch.arange(THREADS).repeat_interleave(ITEMS)

    def warp_exchange(function: str, width: int) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, out = torch.randint(0, 10_000, (2, TILE), dtype=torch.int32)
            calls(function, x, out)
            return [Check(out, x.view(-1, ITEMS, width).transpose(1, 2).flatten())]

        return call

    def warp_copy(way: str) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, out = torch.randn(2, TILE)
            calls(f"warp_copy_{way}", x, out)
            striped = torch.arange(THREADS).view(-1, 1, 32).expand(-1, ITEMS, 32).flatten()
            return [Check(out, x.double() * 2 + (striped if way == "striped" else lanes), 1e-6, 1e-5)]

        return call

    def block_copy(way: str) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, out = torch.randn(TILE), torch.zeros(TILE)
            valid = TILE - 7
            calls(f"block_copy_{way}", x, out, valid)
            expected = x.double() * 3 + 1
            expected[valid:] = 0
            return [Check(out, expected, 1e-6, 1e-6)]

        return call

    def exchange(way: str) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, out = torch.randint(0, 10_000, (2, TILE), dtype=torch.int32)
            ranks = torch.randperm(TILE).int()
            calls(f"block_exchange_{way}", x, ranks, out)
            warps = x.view(-1, ITEMS, 32).transpose(1, 2).flatten()
            expected = {
                "to_striped": x.view(ITEMS, THREADS).T.flatten(),
                "to_blocked": x.view(THREADS, ITEMS).T.flatten(),
                "to_warp_striped": warps,
                "scatter": torch.zeros_like(x).scatter(0, ranks.long(), x),
            }
            return [Check(out, expected[way])]

        return call

    ways = ("direct", "striped", "vectorized", "transposed")
    more = ("warp_transposed", "warp_transposed_in_turns")
    return [
        _block("WarpExchange, shared memory", warp_exchange("warp_exchange_shared", 32)),
        _block("WarpExchange, shuffled", warp_exchange("warp_exchange_shuffled", ITEMS)),
        *(_block(f"WarpLoad and WarpStore, {way}", warp_copy(way)) for way in ways),
        *(_block(f"BlockLoad and BlockStore, {w.replace('_', ' ')}", block_copy(w)) for w in (*ways, *more)),
        *(
            _block(f"BlockExchange, {way.replace('_', ' ')}", exchange(way))
            for way in ("to_striped", "to_blocked", "to_warp_striped", "scatter")
        ),
    ]


def _blocks() -> list[Case]:
    def histogram(function: str) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, out = torch.randint(0, 64, (TILE,), dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
            calls(function, x, out)
            return [Check(out, x.bincount(minlength=64))]

        return call

    def shuffle(calls: Calls) -> list[Check]:
        x, up, offset = (torch.randint(0, 1000, (TILE,), dtype=torch.int32) for _ in range(3))
        calls("shuffle", x, up, offset)
        moved = torch.cat([x[5:THREADS], x[THREADS - 5 : THREADS]])
        return [Check(up[1:], x[:-1]), Check(offset[:THREADS], moved)]

    def discontinuity(calls: Calls) -> list[Check]:
        x = torch.randint(0, 2, (TILE,), dtype=torch.int32)
        heads, tails = torch.zeros(2, TILE, dtype=torch.int32)
        calls("discontinuity", x, heads, tails)
        differs, edge = (x[1:] != x[:-1]).int(), torch.ones(1, dtype=torch.int32)
        return [Check(heads, torch.cat([edge, differs])), Check(tails, torch.cat([differs, edge]))]

    def difference(calls: Calls) -> list[Check]:
        x = torch.randint(0, 100, (TILE,), dtype=torch.int32)
        left, right = torch.zeros(2, TILE, dtype=torch.int32)
        calls("adjacent_difference", x, left, right)
        steps = x[1:] - x[:-1]
        return [Check(left, torch.cat([x[:1], steps])), Check(right, torch.cat([-steps, x[-1:]]))]

    def decode(calls: Calls) -> list[Check]:
        values, lengths = torch.arange(THREADS).int(), torch.randint(1, 20, (THREADS,)).int()
        expected = values.repeat_interleave(lengths.long())
        out, total = torch.zeros(len(expected), dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
        calls("run_length_decode", values, lengths, out, total)
        return [Check(out, expected), Check(total, lengths.sum().view(1))]

    return [
        _block("BlockHistogram, sort", histogram("block_histogram_sort")),
        _block("BlockHistogram, atomic", histogram("block_histogram_atomic")),
        _block("BlockShuffle", shuffle),
        _block("BlockDiscontinuity", discontinuity),
        _block("BlockAdjacentDifference", difference),
        _block("BlockRunLengthDecode", decode),
    ]


def _ints(count: int = COUNT, most: int = 1000) -> torch.Tensor:
    return torch.randint(0, most, (count,), dtype=torch.int32)


def _one(dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.zeros(1, dtype=dtype)


def _runs() -> torch.Tensor:
    return _ints(COUNT // 5).repeat_interleave(torch.randint(1, 9, (COUNT // 5,)))


def _device() -> list[Case]:
    def of(kernel: str, call: Call) -> Case:
        return called(kernel, "cub_device", _glue("cub_device"), call)

    def summed(calls: Calls) -> list[Check]:
        x, out = _ints(), _one(torch.int64)
        calls("reduce_sum_int", x, out, COUNT)
        return [Check(out, x.sum().view(1))]

    def summed_doubles(calls: Calls) -> list[Check]:
        x, out = torch.randn(COUNT).double(), _one(torch.float64)
        calls("reduce_sum_double", x, out, COUNT)
        return [Check(out, x.sum().view(1), 1e-12, 1e-11)]

    def least(calls: Calls) -> list[Check]:
        x, out = torch.randn(COUNT), torch.zeros(1)
        calls("reduce_min", x, out, COUNT)
        return [Check(out, x.min().view(1))]

    def where_most(calls: Calls) -> list[Check]:
        x, out, at = torch.randn(COUNT), torch.zeros(1), _one(torch.int64)
        calls("reduce_arg_max", x, out, at, COUNT)
        return [Check(out, x.max().view(1)), Check(at, x.argmax().view(1))]

    def by_key(calls: Calls) -> list[Check]:
        keys = _runs()
        x, unique, sums, count = _ints(len(keys)), torch.zeros_like(keys), torch.zeros_like(keys), _one()
        calls("reduce_by_key", keys, unique, x, sums, count, len(keys))
        heads, group = keys.unique_consecutive(return_inverse=True)
        n = len(heads)
        return [Check(count, torch.tensor([n])), Check(unique[:n], heads), Check(sums[:n], _grouped(group, x))]

    def segments(calls: Calls) -> list[Check]:
        x, offsets = torch.randn(COUNT), torch.cat([_ints(40, COUNT), torch.tensor([0, COUNT])]).sort().values.int()
        out = torch.zeros(len(offsets) - 1)
        calls("segmented_reduce", x, out, offsets, len(out))
        sums = torch.cat([torch.zeros(1).double(), x.double().cumsum(0)])[offsets.long()]
        return [Check(out, sums.diff(), 1e-5, 1e-4)]

    def scanned(calls: Calls) -> list[Check]:
        x, out = _ints(), torch.zeros(COUNT, dtype=torch.int32)
        calls("scan_exclusive", x, out, COUNT)
        return [Check(out, x.cumsum(0) - x)]

    def scanned_doubles(calls: Calls) -> list[Check]:
        x, out = torch.randn(2, COUNT, dtype=torch.float64)
        calls("scan_inclusive", x, out, COUNT)
        return [Check(out, x.cumsum(0), 1e-12, 1e-11)]

    def scanned_by_key(calls: Calls) -> list[Check]:
        keys = _runs()
        x, out = _ints(len(keys)), torch.zeros_like(keys)
        calls("scan_by_key", keys, x, out, len(keys))
        _, group = keys.unique_consecutive(return_inverse=True)
        sums = x.long().cumsum(0)
        before = (_grouped(group, x).cumsum(0) - _grouped(group, x))[group]
        return [Check(out, sums - before)]

    def sort(calls: Calls) -> list[Check]:
        x, out = torch.randint(-(2**31), 2**31, (2, COUNT)).int()
        calls("radix_sort_int", x, out, COUNT)
        return [Check(out, x.sort().values)]

    def sort_pairs(calls: Calls) -> list[Check]:
        x, out, v = torch.randn(COUNT), torch.zeros(COUNT), torch.arange(COUNT).int()
        order = torch.zeros_like(v)
        calls("radix_sort_pairs", x, out, v, order, COUNT)
        expected = x.sort(descending=True, stable=True)
        return [Check(out, expected.values), Check(order, expected.indices)]

    def merge_sort(calls: Calls) -> list[Check]:
        x = torch.randn(COUNT)
        expected = x.sort().values
        calls("merge_sort", x, COUNT)
        return [Check(x, expected)]

    def segmented_sort(calls: Calls) -> list[Check]:
        x, out, offsets = torch.randn(COUNT), torch.zeros(COUNT), torch.arange(0, COUNT + 1, 100).int()
        calls("segmented_sort", x, out, offsets, COUNT, len(offsets) - 1)
        return [Check(out, x.view(-1, 100).sort(1).values.flatten())]

    def selected(function: str, expect: Callable[[torch.Tensor], torch.Tensor]) -> Call:
        def call(calls: Calls) -> list[Check]:
            x, count = _runs(), _one()
            out = torch.zeros_like(x)
            calls(function, x, out, count, len(x))
            expected = expect(x)
            return [Check(count, torch.tensor([len(expected)])), Check(out[: len(expected)], expected)]

        return call

    def flagged(calls: Calls) -> list[Check]:
        x, flags, out, count = _ints(), _ints(most=2), torch.zeros(COUNT, dtype=torch.int32), _one()
        calls("select_flagged", x, flags, out, count, COUNT)
        expected = x[flags == 1]
        return [Check(count, torch.tensor([len(expected)])), Check(out[: len(expected)], expected)]

    def partition(calls: Calls) -> list[Check]:
        x, out, count = _ints(), torch.zeros(COUNT, dtype=torch.int32), _one()
        calls("partition_if", x, out, count, COUNT)
        even, odd = x[x % 2 == 0], x[x % 2 == 1]
        return [Check(count, torch.tensor([len(even)])), Check(out, torch.cat([even, odd.flip(0)]))]

    def encode(calls: Calls) -> list[Check]:
        x, count = _runs(), _one()
        unique, lengths = torch.zeros_like(x), torch.zeros_like(x)
        calls("run_length_encode", x, unique, lengths, count, len(x))
        heads, runs = x.unique_consecutive(return_counts=True)
        n = len(heads)
        return [Check(count, torch.tensor([n])), Check(unique[:n], heads), Check(lengths[:n], runs)]

    def histogram(calls: Calls) -> list[Check]:
        x, out = torch.rand(COUNT) * 7.9 - 3.95, torch.zeros(32, dtype=torch.int32)
        calls("histogram", x, out, COUNT)
        return [Check(out, x.double().histc(32, -4, 4))]

    def difference(calls: Calls) -> list[Check]:
        x, out = _ints(), torch.zeros(COUNT, dtype=torch.int32)
        calls("adjacent_difference", x, out, COUNT)
        return [Check(out, x.diff(prepend=torch.zeros(1, dtype=torch.int32)))]

    def merge(calls: Calls) -> list[Check]:
        a, b = _ints().sort().values, _ints(777).sort().values
        out = torch.zeros(COUNT + 777, dtype=torch.int32)
        calls("merge", a, b, out, COUNT, 777)
        return [Check(out, torch.cat([a, b]).sort().values)]

    return [
        of("DeviceReduce::Sum<int>", summed),
        of("DeviceReduce::Sum<double>", summed_doubles),
        of("DeviceReduce::Min<float>", least),
        of("DeviceReduce::ArgMax<float>", where_most),
        of("DeviceReduce::ReduceByKey", by_key),
        of("DeviceSegmentedReduce::Sum", segments),
        of("DeviceScan::ExclusiveSum<int>", scanned),
        of("DeviceScan::InclusiveSum<double>", scanned_doubles),
        of("DeviceScan::InclusiveSumByKey", scanned_by_key),
        of("DeviceRadixSort::SortKeys<int>", sort),
        of("DeviceRadixSort::SortPairsDescending<float>", sort_pairs),
        of("DeviceMergeSort::SortKeys<float>", merge_sort),
        of("DeviceSegmentedSort::SortKeys<float>", segmented_sort),
        of("DeviceSelect::If", selected("select_if", lambda x: x[x % 2 == 0])),
        of("DeviceSelect::Flagged", flagged),
        of("DeviceSelect::Unique", selected("select_unique", torch.unique_consecutive)),
        of("DevicePartition::If", partition),
        of("DeviceRunLengthEncode::Encode", encode),
        of("DeviceHistogram::HistogramEven", histogram),
        of("DeviceAdjacentDifference::SubtractLeftCopy", difference),
        of("DeviceMerge::MergeKeys", merge),
    ]


def _grouped(group: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The sum of every group."""
    return torch.zeros(int(group.max()) + 1, dtype=torch.int64).index_add(0, group, x.long())


def _thrust() -> list[Case]:
    def of(
        function: str, make: Callable[[], Any], expect: Callable[..., list[torch.Tensor]], loose: float = 0.0
    ) -> Case:
        """make: the arguments; expect: what they should be once the call is done, for those that are looked at."""

        def call(calls: Calls) -> list[Check]:
            args = make()
            expected = expect(*(one.clone() if isinstance(one, torch.Tensor) else one for one in args))
            calls(function, *args)
            outputs = [one for one in args if isinstance(one, torch.Tensor)][-len(expected) :]
            return [
                Check(got[: len(want)], want, loose, 10 * loose) for got, want in zip(outputs, expected, strict=True)
            ]

        return called(f"thrust::{function}", "thrust", _glue("thrust"), call)

    def count() -> torch.Tensor:
        return _one(torch.int64)

    def counted(values: torch.Tensor) -> list[torch.Tensor]:
        return [values, torch.tensor([len(values)])]

    def doubles() -> torch.Tensor:
        return torch.randn(COUNT, dtype=torch.float64)

    def sets() -> tuple[Any, ...]:
        a, b = (torch.randperm(3 * COUNT)[:COUNT].sort().values.int() for _ in range(2))
        return a, b, torch.zeros(COUNT, dtype=torch.int32), count(), COUNT, COUNT

    n = COUNT
    return [
        of("sort", lambda: (_ints(), n), lambda x, _: [x.sort().values]),
        of(
            "stable_sort_by_key",
            lambda: (torch.randn(n), torch.arange(n).int(), n),
            lambda k, v, _: [k.sort().values, k.sort(stable=True).indices],
        ),
        of("reduce", lambda: (doubles(), _one(torch.float64), n), lambda x, *_: [x.sum().view(1)], 1e-12),
        of(
            "inner_product",
            lambda: (doubles(), doubles(), _one(torch.float64), n),
            lambda x, y, *_: [(x * y).sum().view(1)],
            1e-12,
        ),
        of("transform", lambda: (torch.randn(n), torch.zeros(n), n), lambda x, *_: [x.double() ** 2], 1e-6),
        of("transform_reduce", lambda: (doubles(), _one(torch.float64), n), lambda x, *_: [-x.sum().view(1)], 1e-12),
        of("inclusive_scan", lambda: (_ints(), _ints(), n), lambda x, *_: [x.cumsum(0)]),
        of("exclusive_scan", lambda: (_ints(), _ints(), n), lambda x, *_: [x.cumsum(0) - x + 7]),
        of("count_if", lambda: (_ints(), count(), n), lambda x, *_: [(x % 2 == 0).sum().view(1)]),
        of("copy_if", lambda: (_ints(), _ints(), count(), n), lambda x, *_: counted(x[x % 2 == 0])),
        of("remove_if", lambda: (_ints(), count(), n), lambda x, *_: counted(x[x % 2 == 1])),
        of("unique", lambda: (_ints(most=3), count(), n), lambda x, *_: counted(x.unique_consecutive())),
        of("partition", lambda: (_ints(), count(), n), lambda x, *_: _parted(x)),
        of("max_element", lambda: (torch.randn(n), count(), n), lambda x, *_: [x.argmax().view(1)]),
        of(
            "lower_bound",
            lambda: (_ints().sort().values, _ints(99), _ints(99), n, 99),
            lambda x, wanted, *_: [torch.searchsorted(x, wanted)],
        ),
        of(
            "merge",
            lambda: (_ints().sort().values, _ints(99).sort().values, _ints(n + 99), n, 99),
            lambda a, b, *_: [torch.cat([a, b]).sort().values],
        ),
        of("set_intersection", sets, lambda a, b, *_: counted(a[torch.isin(a, b)])),
        of(
            "reduce_by_key",
            lambda: (_ints(most=3), _ints(), _ints(), _ints(), count(), n),
            lambda keys, x, *_: _by_key(keys, x),
        ),
        of(
            "gather",
            lambda: (torch.randperm(n).int(), torch.randn(n), torch.zeros(n), n),
            lambda i, x, *_: [x[i.long()]],
        ),
        of(
            "scatter",
            lambda: (torch.randn(n), torch.randperm(n).int(), torch.zeros(n), n),
            lambda x, i, *_: [torch.zeros(n).scatter(0, i.long(), x)],
        ),
        of("reverse", lambda: (_ints(), n), lambda x, _: [x.flip(0)]),
        of("adjacent_difference", lambda: (_ints(), _ints(), n), lambda x, *_: [torch.cat([x[:1], x.diff()])]),
    ]


def _parted(x: torch.Tensor) -> list[torch.Tensor]:
    even = x[x % 2 == 0]
    return [torch.cat([even, x[x % 2 == 1]]), torch.tensor([len(even)])]


def _by_key(keys: torch.Tensor, x: torch.Tensor) -> list[torch.Tensor]:
    heads, group = keys.unique_consecutive(return_inverse=True)
    return [heads, _grouped(group, x), torch.tensor([len(heads)])]
