"""Blackwell: tcgen05 on one CTA and on pairs, operands in tensor memory, the shapes of its loads."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from tests.support.corpus.launch import Arguments, Draw, Launch, Map, close, equal


def launches() -> Iterator[Launch]:
    module, block = "sm100.sm_100a", (128, 1, 1)
    for name, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
        entry = f"tcgen05_gemm_{name}"

        def single(draw: Draw, dtype: torch.dtype = dtype) -> Arguments:
            a, b = draw.floats(256, 320, dtype=dtype), draw.floats(384, 320, dtype=dtype)
            return [Map(a, (64, 128), 128), Map(b, (64, 128), 128), torch.zeros(256, 384), 384, 320]

        yield Launch(f"{entry}.sm_100a", module, entry, (3, 2, 1), block, single, _check_gemm)
    yield Launch(
        "tcgen05_gemm_pair.sm_100a",
        module,
        "tcgen05_gemm_pair",
        (4, 3, 1),
        block,
        _pair,
        _check_gemm,
        cluster=(2, 1, 1),
    )
    yield Launch("tcgen05_a_in_tmem.sm_100a", module, "tcgen05_a_in_tmem", (1, 1, 1), block, _a_in_tmem, _check_product)
    yield Launch("tmem_shapes.sm_100a", module, "tmem_shapes", (1, 1, 1), block, _words, _check_shapes)


def _pair(draw: Draw) -> Arguments:
    a, b = draw.floats(512, 320, dtype=torch.float16), draw.floats(384, 320, dtype=torch.float16)
    return [Map(a, (64, 128), 128), Map(b, (64, 64), 128), torch.zeros(512, 384), 384, 320]


def _check_gemm(a: Arguments) -> None:
    close(a[2], a[0].tensor.double() @ a[1].tensor.double().T, 1e-4, 1e-3)


def _a_in_tmem(draw: Draw) -> Arguments:
    return [draw.floats(128, 16, dtype=torch.float16), draw.floats(64, 16, dtype=torch.float16), torch.zeros(128, 64)]


def _check_product(a: Arguments) -> None:
    close(a[2], a[0].double() @ a[1].double().T, 1e-4, 1e-3)


def _words(draw: Draw) -> Arguments:
    return [torch.zeros(128 * 48, dtype=torch.int32)]


def _check_shapes(a: Arguments) -> None:
    """The kernel stored 1000 · lane + column with 32x32b and loaded it again in every shape."""
    out, lane = a[0].view(4, 32, 48).long(), torch.arange(32)
    for warp in range(4):
        tile = (lane[:, None] + 32 * warp) * 1000 + torch.arange(16)
        got = out[warp]
        equal(got[:, 24:32], tile[:, :8])
        for x in range(2):  # 16x256b: fragments of 8 rows by 4 pairs of columns; x2 repeats every 8 columns
            for j in range(4):
                equal(got[:, 16 + 4 * x + j], tile[lane // 4 + 8 * (j // 2), 8 * x + 2 * (lane % 4) + j % 2])
        for x in range(4):  # 16x128b: row t/4 (+8), column t%4
            for j in range(2):
                equal(got[:, 8 + 2 * x + j], tile[lane // 4 + 8 * j, 4 * x + lane % 4])
        # 16x32bx2 with offset 8: the upper half of the warp takes columns 8 to 15 of the same rows
        equal(got[:16, 32:40], tile[:16, :8])
        equal(got[16:, 32:40], tile[:16, 8:16])
        packed = (tile[:, 0:16:2] & 0xFFFF) | ((tile[:, 1:16:2] & 0xFFFF) << 16)
        equal(got[:, 40:48] & 0xFFFFFFFF, packed & 0xFFFFFFFF)
