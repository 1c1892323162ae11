"""Ampere: cp.async, ldmatrix with mma.sync, mbarriers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from tests.support.corpus.launch import Arguments, Draw, Launch, close, equal


def launches(arch: str) -> Iterator[Launch]:
    def launch(entry: str, grid: tuple[int, int, int], threads: int, make: Any, check: Any, name: str = "") -> Launch:
        return Launch(f"{name or entry}.{arch}", f"sm80.{arch}", entry, grid, (threads, 1, 1), make, check)

    yield launch("cp_async_copy", (2, 1, 1), 128, _copy, _check_copy)
    for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):

        def gemm(draw: Draw, dtype: torch.dtype = dtype) -> Arguments:
            return [draw.floats(48, 64, dtype=dtype), draw.floats(32, 64, dtype=dtype), torch.zeros(48, 32), 32, 64]

        yield launch(f"mma_gemm_{name}", (4, 3, 1), 32, gemm, lambda a: close(a[2], _product(a), 1e-4, 1e-4))
    yield launch("mma_s8", (1, 1, 1), 32, _bytes, lambda a: close(a[2], _product(a), 0, 0))
    yield launch("mma_tf32", (1, 1, 1), 32, _tf32, lambda a: close(a[2], _product(a), 1e-5, 1e-5))
    yield launch(
        "mbarrier_ping_pong",
        (1, 1, 1),
        64,
        lambda draw: [draw.whole(-99, 99, 224), torch.zeros(224, dtype=torch.int32), 7],
        lambda a: equal(a[1].view(7, 32), 2 * a[0].view(7, 32).flip(1)),
    )


def _product(a: Arguments) -> torch.Tensor:
    return a[0].double() @ a[1].double().T


def _bytes(draw: Draw) -> Arguments:
    a, b = (draw.whole(-128, 128, rows, 32, dtype=torch.int8) for rows in (16, 8))
    return [a, b, torch.zeros(16, 8, dtype=torch.int32)]


def _tf32(draw: Draw) -> Arguments:
    return [draw.tf32(16, 8), draw.tf32(8, 8), torch.zeros(16, 8)]


def _copy(draw: Draw) -> Arguments:
    return [draw.floats(2400), torch.zeros(2560), 600, 5]


def _check_copy(a: Arguments) -> None:
    """Each group of four comes from its neighbour; what is past the input is filled with zeros."""
    source = torch.zeros(640, 4)
    source[:600] = a[0].view(-1, 4)
    equal(a[1].view(-1, 4), source[torch.arange(640) ^ 1])
