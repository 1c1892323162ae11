"""How mma.sync spreads matrices over a warp's registers, as CuTe's traits have it."""

from __future__ import annotations

import numpy as np

from tests.support.emulator.cute_layouts import offset
from tests.support.emulator.tensor_formats import random_raw, values_of

# CuTe's MMA_Traits: (thread, value) -> column-major index into A (M x K), B (N x K), C (M x N).
A_LAYOUTS = {
    ("f16", 16, 8): ((4, 8), (32, 1), (2, 2), (16, 8)),
    ("f16", 16, 16): ((4, 8), (32, 1), (2, 2, 2), (16, 8, 128)),
    ("tf32", 16, 4): ((4, 8), (16, 1), (2,), (8,)),
    ("tf32", 16, 8): ((4, 8), (16, 1), (2, 2), (8, 64)),
    ("s8", 8, 16): ((4, 8), (32, 1), (4,), (8,)),
    ("s8", 16, 16): ((4, 8), (64, 1), (4, 2), (16, 8)),
    ("s8", 16, 32): ((4, 8), (64, 1), (4, 2, 2), (16, 8, 256)),
    ("s4", 8, 32): ((4, 8), (64, 1), (8,), (8,)),
    ("s4", 16, 32): ((4, 8), (128, 1), (8, 2), (16, 8)),
    ("s4", 16, 64): ((4, 8), (128, 1), (8, 2, 2), (16, 8, 512)),
    ("b1", 8, 128): ((4, 8), (256, 1), (32,), (8,)),
    ("b1", 16, 256): ((4, 8), (512, 1), (32, 2, 2), (16, 8, 2048)),
    ("f64", 8, 4): ((4, 8), (8, 1), (1,), (1,)),
    ("f64", 16, 4): ((4, 8), (16, 1), (2,), (8,)),
    ("f64", 16, 8): ((4, 8), (16, 1), (2, 2), (8, 64)),
    ("f64", 16, 16): ((4, 8), (16, 1), (2, 4), (8, 64)),
}
B_LAYOUTS = {
    ("f16", 8): ((4, 8), (16, 1), (2,), (8,)),
    ("f16", 16): ((4, 8), (16, 1), (2, 2), (8, 64)),
    ("tf32", 4): ((4, 8), (8, 1), (1,), (1,)),
    ("tf32", 8): ((4, 8), (8, 1), (2,), (32,)),
    ("s8", 16): ((4, 8), (32, 1), (4,), (8,)),
    ("s8", 32): ((4, 8), (32, 1), (4, 2), (8, 128)),
    ("s4", 32): ((4, 8), (64, 1), (8,), (8,)),
    ("s4", 64): ((4, 8), (64, 1), (8, 2), (8, 256)),
    ("b1", 128): ((4, 8), (256, 1), (32,), (8,)),
    ("b1", 256): ((4, 8), (256, 1), (32, 2), (8, 1024)),
    ("f64", 4): ((4, 8), (8, 1), (1,), (1,)),
    ("f64", 8): ((4, 8), (8, 1), (2,), (32,)),
    ("f64", 16): ((4, 8), (8, 1), (4,), (32,)),
}
C_LAYOUTS = {8: ((4, 8), (16, 1), (2,), (8,)), 16: ((4, 8), (32, 1), (2, 2), (16, 8))}
CLASS = {"bf16": "f16", "e4m3": "s8", "e5m2": "s8", "u8": "s8", "u4": "s4"}


def fragment(layout: tuple, matrix: np.ndarray) -> np.ndarray:
    """(values, 32 threads) from a (rows, columns) matrix."""
    threads, thread_strides, values, value_strides = layout
    count = int(np.prod(values))
    flat = matrix.T.reshape(-1)  # column-major
    index = [
        [offset(t, threads, thread_strides) + offset(v, values, value_strides) for t in range(32)] for v in range(count)
    ]
    return flat[np.array(index)]


def unfragment(layout: tuple, registers: np.ndarray, rows: int, columns: int) -> np.ndarray:
    where = fragment(layout, np.arange(rows * columns).reshape(columns, rows).T)
    flat = np.zeros(rows * columns, registers.dtype)
    flat[where.reshape(-1)] = registers.reshape(-1)
    return flat.reshape(columns, rows).T


def pack(values: np.ndarray, bits: int) -> np.ndarray:
    """Registers (n, 32) from values (n * 32/bits, 32), the first value in the low bits."""
    per = 32 // bits
    grouped = values.astype(np.uint64).reshape(-1, per, 32)
    return sum(grouped[:, i] << np.uint64(bits * i) for i in range(per)).astype(np.uint32)


def bits_of(name: str) -> int:
    return {"f16": 16, "bf16": 16, "tf32": 32, "s4": 4, "u4": 4, "b1": 1}.get(name, 8)


def raw_matrix(rng: np.random.Generator, name: str, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    if name in ("s4", "u4", "b1"):
        raw = rng.integers(0, 1 << bits_of(name), shape, dtype=np.uint8)
        signed = (raw.astype(np.int8) ^ 8) - 8 if name == "s4" else raw
        return raw, signed.astype(np.float64)
    raw = random_raw(rng, name, shape, True)
    return raw, values_of(name, raw)
