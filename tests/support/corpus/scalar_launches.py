"""Plain CUDA C++: arithmetic, atomics, warp exchange, divergence, calls, address spaces, printf, faults."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import torch

from tests.support.corpus import scalar_checks as checks
from tests.support.corpus.launch import Arguments, Draw, Launch, close, equal

Dims = tuple[int, int, int]


def launches(arch: str) -> Iterator[Launch]:
    def launch(entry: str, grid: Dims, block: Dims, make: Any, check: Any, **more: Any) -> Launch:
        return Launch(f"{entry}.{arch}", f"scalar.{arch}", entry, grid, block, make, check, **more)

    yield launch("vector_add", (8, 1, 1), (128, 1, 1), _vectors, lambda a: equal(a[2], a[0] + a[1]))
    yield launch("vector_add_h2", (4, 1, 1), (128, 1, 1), _halves, lambda a: close(a[2], a[0] + a[1] * 0.5, 2e-3, 1e-3))
    yield launch("vector_add_bf16", (8, 1, 1), (128, 1, 1), _bfloats, _check_bfloats)
    yield launch(
        "alu_loop", (64, 1, 1), (256, 1, 1), lambda draw: [torch.zeros(64 * 256), checks.SEED, 200], checks.alu_loop
    )
    yield launch("scalar_attention_d64", (8, 1, 1), (64, 1, 1), _attention, _check_attention, exact=False)
    yield launch("block_reduce", (4, 1, 1), (256, 1, 1), _reduction, _check_reduction)
    yield launch("atomics", (5, 1, 1), (128, 1, 1), _atomics, checks.atomics)
    yield launch("shuffles_and_votes", (2, 1, 1), (64, 1, 1), _lanes, checks.shuffles_and_votes)
    yield launch("divergence", (3, 1, 1), (128, 1, 1), _starts, checks.divergence)
    yield launch("calls_and_spaces", (2, 1, 1), (64, 1, 1), _polynomials, checks.calls_and_spaces)
    yield launch("struct_parameter", (1, 1, 1), (32, 1, 1), _struct, _check_struct)
    yield launch("arithmetic", (1, 1, 1), (64, 1, 1), _operands, checks.arithmetic, exact=False)
    yield launch("transpose", (3, 2, 1), (32, 8, 1), _matrix, lambda a: equal(a[1], a[0].T))
    yield launch("vector_copy", (3, 1, 1), (128, 1, 1), _fours, _check_fours, smem=2048)
    yield launch("print", (2, 1, 1), (32, 1, 1), lambda draw: [3], lambda a: None)
    yield launch("trap_at", (2, 1, 1), (64, 1, 1), lambda draw: [37], lambda a: None, fails="trap")
    yield launch(
        "out_of_bounds", (1, 1, 1), (32, 1, 1), lambda draw: [torch.zeros(100), 90], lambda a: None, fails="bounds"
    )


def _vectors(draw: Draw) -> Arguments:
    return [draw.floats(1000), draw.floats(1000), torch.full((1000,), math.nan), 1000]


def _halves(draw: Draw) -> Arguments:
    return [*(draw.floats(1000, dtype=torch.float16) for _ in range(2)), torch.zeros(1000).half(), 500]


def _bfloats(draw: Draw) -> Arguments:
    return [*(draw.floats(1000, dtype=torch.bfloat16) for _ in range(2)), torch.zeros(1000).bfloat16(), 1000]


def _check_bfloats(a: Arguments) -> None:
    equal(a[2], (a[0].float() + a[1].float()).bfloat16())


def _attention(draw: Draw) -> Arguments:
    return [*(draw.floats(512, 64) for _ in range(3)), torch.zeros(512, 64), 512, 0.125]


def _check_attention(a: Arguments) -> None:
    q, k, v, o = (x.double() for x in a[:4])
    close(o, torch.softmax(q @ k.T * a[5], -1) @ v, 1e-4, 1e-5)


def _reduction(draw: Draw) -> Arguments:
    return [draw.floats(5000), torch.zeros(4), torch.zeros(4), 5000]


def _check_reduction(a: Arguments) -> None:
    close(a[1].sum(), a[0].double().sum(), 1e-4, 1e-3)
    equal(a[2].max(), a[0].max())


def _atomics(draw: Draw) -> Arguments:
    out = torch.zeros(16, dtype=torch.int32)
    out[1], out[2], out[3] = 2**31 - 1, -(2**31), -1
    wide = torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.float64)
    return [draw.whole(0, 1000, 600), out, torch.zeros(4), *wide, 600]


def _lanes(draw: Draw) -> Arguments:
    return [draw.whole(-50, 150, 128), torch.zeros(128, 12, dtype=torch.int32)]


def _starts(draw: Draw) -> Arguments:
    return [draw.whole(1, 10000, 300), torch.zeros(300, dtype=torch.int32), 300]


def _polynomials(draw: Draw) -> Arguments:
    return [draw.floats(100), torch.zeros(100), torch.zeros(100, dtype=torch.int32), 100]


def _struct(draw: Draw) -> Arguments:
    fields = struct.pack("<ifd3hBx", 7, 1.5, 2.25, 10, -20, 30, 200)
    return [fields, torch.zeros(32), 1 << 20, -3, 0.5]


def _check_struct(a: Arguments) -> None:
    shorts = torch.tensor([10, -20, 30])[torch.arange(32) % 3]
    close(a[1], 7 + 1.5 + 2.25 + shorts + 200 + (1 << 20) - 3 + 0.5)


def _operands(draw: Draw) -> Arguments:
    whole = draw.whole(-(2**31), 2**31, 64, 2)
    return [torch.rand(64, 2) * 6 - 3, whole, torch.zeros(64, 24, dtype=torch.int32)]


def _matrix(draw: Draw) -> Arguments:
    return [draw.floats(50, 70), torch.zeros(70, 50), 50, 70]


def _fours(draw: Draw) -> Arguments:
    return [draw.floats(1280), torch.zeros(1280), 320]


def _check_fours(a: Arguments) -> None:
    """Groups of four change places in shared memory; those past the input read zeros."""
    source = torch.zeros(384, 4)
    source[:320] = a[0].view(-1, 4)
    equal(a[1].view(-1, 4), source[torch.arange(384) ^ 32][:320])
