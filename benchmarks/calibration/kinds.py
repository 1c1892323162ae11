"""Kernels by kind, each launched with three grids: what the timing model is judged by.

Half of the kinds are never fitted. Which ones a hash of their names decides, so nobody chose them: figures and rules of
the model may be changed for what a fitted kind shows, never for what another one shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from calibration.cases import Prepared
from calibration.shipped import kernel

from sglab.gpu import Device, TensorMap

Operand = Callable[[int], Any]  # from the number of CTAs to a tensor on the host, or a number

GRIDS = (1, 132, 600)
CLUSTER_GRIDS = (4, 132, 600)
SLOTS = 2**15  # of the hash table


@dataclass(frozen=True)
class Kernel:
    """source: the file in `ptx` that holds it. operands: the result first."""

    kind: str
    name: str
    source: str
    threads: int
    operands: tuple[Operand, ...]
    grids: tuple[int, ...] = GRIDS
    smem: int = 0

    def prepare(self, device: Device, ctas: int) -> Prepared:
        tensors = [operand(ctas) for operand in self.operands]
        moved = [x.to(device.torch_device) if isinstance(x, torch.Tensor) else x for x in tensors]
        args: list[Any] = [TensorMap(x, (64, 32)) for x in moved] if self.name == "tensor_tiles" else moved
        launch = kernel(self.source, self.name).prepare(device, ctas, self.threads, smem=self.smem, args=args)
        return Prepared(launch, tuple(moved))


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def zeros(per_cta: int, dtype: torch.dtype = torch.float32) -> Operand:
    return lambda ctas: torch.zeros(ctas * per_cta, dtype=dtype)


def counts(total: int) -> Operand:
    """Counters that all CTAs share."""
    return lambda ctas: torch.zeros(total, dtype=torch.int32)


def values(per_cta: int, extra: int = 0, dtype: torch.dtype = torch.float32) -> Operand:
    return lambda ctas: torch.randn(ctas * per_cta + extra, generator=_generator()).to(dtype)


def table(total: int, dtype: torch.dtype = torch.float32) -> Operand:
    """What all CTAs read."""
    return lambda ctas: torch.randn(total, generator=_generator()).to(dtype)


def integers(per_cta: int, high: int = 2**31) -> Operand:
    return lambda ctas: torch.randint(0, high, (ctas * per_cta,), generator=_generator()).to(torch.int32)


def shared_integers(total: int) -> Operand:
    return lambda ctas: torch.randint(0, 2**31, (total,), generator=_generator()).to(torch.int32)


def number(n: int) -> Operand:
    return lambda ctas: n


def cycle(length: int) -> Operand:
    """A chain through all of `length` places, in no order."""

    def made(ctas: int) -> torch.Tensor:
        order = torch.randperm(length, generator=_generator())
        following = torch.empty(length, dtype=torch.int32)
        following[order] = order.roll(-1).int()
        return following

    return made


def rows_of(per_cta: int, least: int, most: int) -> Operand:
    """CSR: where rows of `least` to `most` elements begin."""

    def made(ctas: int) -> torch.Tensor:
        lengths = torch.randint(least, most + 1, (ctas * per_cta,), generator=_generator())
        return torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)]).int()

    return made


def elements_of(per_cta: int, least: int, most: int, high: int = 0) -> Operand:
    """CSR: columns below `high`, or values, of those rows."""
    rows = rows_of(per_cta, least, most)

    def made(ctas: int) -> torch.Tensor:
        total = int(rows(ctas)[-1])
        if high:
            return torch.randint(0, high, (total,), generator=_generator()).int()
        return torch.randn(total, generator=_generator())

    return made


def _keys() -> np.ndarray:
    """Half as many as the hash table has slots; none is 0."""
    return np.random.default_rng(0).integers(1, 2**31, SLOTS // 2, dtype=np.uint32)


def hash_table(ctas: int) -> torch.Tensor:
    slots = np.zeros(SLOTS, np.uint32)
    for key in _keys():
        mixed = int(key) * 0x9E3779B1 % 2**32
        slot = (mixed ^ mixed >> 15) % SLOTS
        while slots[slot] not in (0, key):
            slot = (slot + 1) % SLOTS
        slots[slot] = key
    return torch.from_numpy(slots.view(np.int32)).clone()  # aligned as tensors are


def wanted_keys(ctas: int) -> torch.Tensor:
    """Two of three are in the table."""
    rng = np.random.default_rng(1)
    known = rng.choice(_keys(), ctas * 1024)
    other = rng.integers(1, 2**31, ctas * 1024, dtype=np.uint32)
    return torch.from_numpy(np.where(rng.random(ctas * 1024) < 2 / 3, known, other).view(np.int32)).clone()


def tiles(ctas: int) -> torch.Tensor:
    return torch.randn(ctas * 192, 32, generator=_generator())


def _simple(kind: str, name: str, source: str, threads: int, *operands: Operand, n: int = 0, **more: Any) -> Kernel:
    """A kernel of (result, two inputs, n); an input that it does not have is the first one again."""
    result, *inputs = operands
    inputs = (inputs or [result]) * 2 if len(inputs) < 2 else inputs
    return Kernel(kind, name, source, threads, (result, inputs[0], inputs[1], number(n)), **more)


I32, F64, BF16 = torch.int32, torch.float64, torch.bfloat16
SHORT, LONG = (128, 0, 15), (8, 16, 192)  # rows per CTA, shortest, longest

KERNELS = (
    _simple("gather", "gather_words", "memory", 256, zeros(2048), table(2**18), integers(2048, 2**18)),
    _simple("gather", "gather_rows", "memory", 256, zeros(2048), table(2**18), integers(64, 2**13)),
    _simple("matrix-vector product", "gemv_rows", "memory", 256, zeros(8), values(8192), table(1024), n=1024),
    _simple("matrix-vector product", "gemv_columns", "memory", 256, zeros(256), values(8192), table(32), n=32),
    Kernel("sparse product", "spmv_threads", "memory", 128,
           (zeros(128), rows_of(*SHORT), elements_of(*SHORT, 2**16), elements_of(*SHORT), table(2**16), number(0))),
    Kernel("sparse product", "spmv_warps", "memory", 256,
           (zeros(8), rows_of(*LONG), elements_of(*LONG, 2**16), elements_of(*LONG), table(2**16), number(0))),
    _simple("stencil", "stencil_line", "memory", 256, zeros(1024), values(1024, 6)),
    _simple("stencil", "stencil_plane", "memory", 256, zeros(2048), values(2048, 512)),
    _simple("hash table", "hash_find", "memory", 256, zeros(1024, I32), wanted_keys, hash_table, n=SLOTS),
    _simple("hash table", "hash_count", "memory", 256, counts(SLOTS), wanted_keys, hash_table, n=SLOTS),
    _simple("chase", "chase_l2", "memory", 32, zeros(1, I32), cycle(2**18), n=64),
    _simple("chase", "chase_l1", "memory", 64, zeros(64, I32), cycle(8192), n=48),
    _simple("chase", "chase_shared", "memory", 64, zeros(64, I32), cycle(4096), n=64),
    _simple("elementwise", "gelu", "memory", 128, zeros(2048), values(2048)),
    _simple("elementwise", "bias_relu", "memory", 256, zeros(4096, BF16), values(4096, dtype=BF16), table(512, BF16)),
    _simple("reduction", "reduce_shuffle", "shared", 256, zeros(1), values(4096)),
    _simple("reduction", "reduce_tree", "shared", 512, zeros(1), values(2048)),
    _simple("atomics", "atomic_sum", "shared", 256, lambda ctas: torch.zeros(1), values(1024)),
    _simple("atomics", "atomic_scatter", "shared", 256, counts(2**18), integers(2048, 2**18)),
    _simple("scan", "scan_steps", "shared", 512, zeros(512), values(512)),
    _simple("scan", "scan_shuffle", "shared", 256, zeros(1024), values(1024)),
    _simple("histogram", "histogram_shared", "shared", 256, counts(256), integers(1024)),
    _simple("histogram", "histogram_global", "shared", 256, counts(4096), integers(1024)),
    _simple("transpose", "transpose_conflicts", "shared", 256, zeros(1024), values(1024)),
    _simple("transpose", "transpose_stores", "shared", 256, zeros(1024), values(1024)),
    _simple("bank conflicts", "bank_free", "shared", 256, zeros(256), table(4096), n=48),
    _simple("bank conflicts", "bank_4_ways", "shared", 256, zeros(256), table(4096), n=48),
    _simple("bank conflicts", "bank_32_ways", "shared", 256, zeros(256), table(4096), n=16),
    _simple("sort", "sort_shared", "shared", 256, zeros(512, I32), integers(512)),
    _simple("sort", "sort_shuffle", "shared", 128, zeros(512, I32), integers(512)),
    _simple("softmax", "softmax_ctas", "shared", 256, zeros(2048), values(2048)),
    _simple("softmax", "softmax_warps", "shared", 256, zeros(2048), values(2048), n=256),
    _simple("layer norm", "layer_norm_ctas", "shared", 128, zeros(1024), values(1024), table(1024)),
    _simple("layer norm", "layer_norm_warps", "shared", 256, zeros(2048), values(2048), table(256)),
    _simple("n bodies", "bodies_shared", "arithmetic", 128, zeros(512), values(512), n=128),
    _simple("n bodies", "bodies_shuffle", "arithmetic", 128, zeros(512), values(512), n=64),
    _simple("division", "divide_float", "arithmetic", 256, zeros(256), values(256), n=24),
    _simple("division", "divide_integer", "arithmetic", 256, zeros(256, I32), integers(256), n=16),
    _simple("transcendental", "special_functions", "arithmetic", 256, zeros(256), values(256), n=32),
    _simple("transcendental", "exact_functions", "arithmetic", 256, zeros(256), values(256), n=4),
    _simple("double precision", "double_polynomial", "arithmetic", 128, zeros(128, F64), values(128, dtype=F64), n=64),
    _simple("double precision", "double_dot", "arithmetic", 256, zeros(8, F64), values(1024, dtype=F64),
            values(1024, dtype=F64)),
    _simple("divergence", "mandelbrot", "arithmetic", 256, zeros(256, I32), n=64),
    _simple("divergence", "collatz", "arithmetic", 256, zeros(256, I32), n=64),
    _simple("bits", "bits_mix", "arithmetic", 256, zeros(256, I32), integers(256), n=16),
    _simple("bits", "checksum_table", "arithmetic", 128, zeros(128, I32), integers(2048), shared_integers(256)),
    _simple("product on CUDA cores", "matmul_elements", "products", 256, zeros(256), values(1024), table(1024), n=64),
    _simple("product on CUDA cores", "matmul_registers", "products", 256, zeros(4096), values(2048), table(2048), n=32),
    _simple("product by mma.sync", "mma_registers", "products", 128, zeros(4096), values(16384, dtype=BF16),
            table(16384, BF16), n=256),
    _simple("product by mma.sync", "mma_stages", "products", 128, zeros(4096), values(16384, dtype=BF16),
            table(16384, BF16), n=256),
    _simple("convolution", "convolve_line", "products", 256, zeros(1024), values(1024, 16), table(17)),
    _simple("convolution", "convolve_plane", "products", 256, zeros(256), values(2720), table(72)),
    _simple("cp.async", "cp_async_vectors", "asynchronous", 256, zeros(6144), values(6144)),
    _simple("cp.async", "cp_async_words", "asynchronous", 256, zeros(2048), values(2048)),
    _simple("bulk copies", "bulk_sum", "asynchronous", 128, zeros(128), values(8192)),
    Kernel("bulk copies", "tensor_tiles", "asynchronous", 128, (tiles, tiles)),
    _simple("clusters", "cluster_ring", "asynchronous", 256, zeros(256), values(256), n=8, grids=CLUSTER_GRIDS),
    _simple("clusters", "cluster_sum", "asynchronous", 256, zeros(64, I32), integers(1024, 100), grids=CLUSTER_GRIDS),
    _simple("warps that feed warps", "feed_by_barriers", "asynchronous", 128, zeros(96), values(3072), n=32),
    _simple("warps that feed warps", "feed_by_mbarriers", "asynchronous", 128, zeros(96), values(3072), n=32),
    _simple("product by wgmma", "wgmma_64", "asynchronous", 128, zeros(4096), values(16384, dtype=BF16),
            table(16384, BF16), n=4),
    _simple("product by wgmma", "wgmma_256", "asynchronous", 128, zeros(4096), values(16384, dtype=BF16),
            table(65536, BF16), n=4, smem=81920),
)  # fmt: skip

KINDS = tuple(dict.fromkeys(one.kind for one in KERNELS))


def never_fitted() -> frozenset[str]:
    """The half of the kinds whose names have the smaller SHA-256."""
    ranked = sorted(KINDS, key=lambda kind: sha256(kind.encode()).digest())
    return frozenset(ranked[: (len(ranked) + 1) // 2])


NEVER_FITTED = never_fitted()
