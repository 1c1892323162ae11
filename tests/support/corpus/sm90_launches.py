"""Hopper: TMA, bulk copies, multicast, distributed shared memory, wgmma, stmatrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from tests.support.corpus.launch import Arguments, Draw, Launch, Map, cdiv, close, equal

MODULE = "sm90.sm_90a"


def _launch(entry: str, grid: tuple[int, int, int], threads: int, make: Any, check: Any, **more: Any) -> Launch:
    name = more.pop("name", entry)
    return Launch(f"{name}.sm_90a", MODULE, entry, grid, (threads, 1, 1), make, check, **more)


def launches() -> Iterator[Launch]:
    yield from _tma_copies()
    yield _launch("tma_load_3d_image", (1, 1, 1), 64, _image_3d, _check_image_3d, smem=1024)
    yield _launch(
        "tma_load_3d_image", (1, 1, 1), 64, _before_3d, _check_before_3d, smem=1024, name="tma_load_3d_negative"
    )
    yield _launch("tma_reduce", (4, 1, 1), 256, lambda draw: [Map(torch.zeros(20, 64), (32, 8))], _check_reduce)
    yield _launch("bulk_copy", (3, 1, 1), 256, _bulk, _check_bulk)
    yield from _clusters()
    yield _launch("wgmma_gemm", (3, 2, 1), 128, _k_major, _check_gemm)
    yield _launch("wgmma_gemm_pipelined", (3, 2, 1), 256, _k_major, _check_gemm, smem=65536)
    yield _launch("wgmma_gemm_bt", (3, 2, 1), 128, _mn_major, _check_gemm_bt)
    yield _launch("wgmma_register_a", (1, 1, 1), 128, _register_a, _check_register_a)
    yield _launch("stmatrix_image", (1, 1, 1), 32, _fragments, _check_stmatrix)
    yield _launch(
        "dependent_launch",
        (2, 1, 1),
        32,
        lambda draw: [torch.zeros(64, dtype=torch.int32)],
        lambda a: equal(a[0].view(2, 32).long(), torch.arange(2)[:, None] * 1000 + torch.arange(32)),
    )


def unswizzled(image: torch.Tensor, swizzle: int) -> torch.Tensor:
    """The logical bytes of a tile that a TMA load put at a multiple of 1024 bytes."""
    physical = image.contiguous().view(torch.uint8).flatten().numpy()
    address = np.arange(physical.size)
    chosen = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    return torch.from_numpy(physical[address ^ (((address >> 7) & chosen) << 4)])


def _tma_copies() -> Iterator[Launch]:
    for swizzle in (0, 32, 64, 128):
        width = (swizzle or 128) // 2
        across = cdiv(200, width)

        def make(draw: Draw, width: int = width, swizzle: int = swizzle) -> Arguments:
            source, target = draw.floats(40, 200, dtype=torch.float16), torch.zeros(40, 200).half()
            image = torch.zeros(3, cdiv(200, width), 16 * width // 2, dtype=torch.int32)
            maps = [Map(tensor, (width, 16), swizzle) for tensor in (source, target)]
            return [*maps, image, width, 16, 32 * width, 0, 0]

        def check(a: Arguments, width: int = width, swizzle: int = swizzle) -> None:
            source = torch.zeros(48, cdiv(200, width) * width).half()
            source[:40, :200] = a[0].tensor
            equal(a[1].tensor, a[0].tensor)
            for y in range(3):
                for x in range(cdiv(200, width)):
                    tile = unswizzled(a[2][y, x], swizzle).view(torch.float16).view(16, width)
                    equal(tile, source[16 * y : 16 * y + 16, width * x : width * x + width])

        name = f"tma_copy_2d_swizzle{swizzle}"
        yield _launch("tma_copy_2d", (across, 3, 1), 64, make, check, name=name, smem=32 * width)

    def corner(draw: Draw) -> Arguments:
        tensors = draw.floats(40, 200, dtype=torch.float16), torch.zeros(40, 200).half()
        image = torch.zeros(512, dtype=torch.int32)
        return [*(Map(tensor, (64, 16), 128) for tensor in tensors), image, 64, 16, 2048, 176, 29]

    def check_corner(a: Arguments) -> None:
        tile, copied = torch.zeros(16, 64).half(), torch.zeros(40, 200).half()
        tile[:11, :24] = copied[29:, 176:] = a[0].tensor[29:, 176:]
        equal(unswizzled(a[2], 128).view(torch.float16).view(16, 64), tile)
        equal(a[1].tensor, copied)

    yield _launch("tma_copy_2d", (1, 1, 1), 64, corner, check_corner, name="tma_copy_2d_corner", smem=2048)


def _clusters() -> Iterator[Launch]:
    for size in (1, 2, 4):

        def make(draw: Draw, size: int = size) -> Arguments:
            tile = Map(draw.floats(256, 64, dtype=torch.float16), (64, 64 // size), 128)
            return [tile, torch.zeros(4, 2048, dtype=torch.int32), 64 // size]

        def check(a: Arguments, size: int = size) -> None:
            for cta in range(4):
                tile = unswizzled(a[1][cta], 128).view(torch.float16).view(64, 64)
                equal(tile, a[0].tensor[cta // size * 64 : cta // size * 64 + 64])

        name = f"multicast_cluster{size}"
        yield _launch("multicast", (4, 1, 1), 128, make, check, name=name, cluster=(size, 1, 1))
    for size in (1, 2, 4, 8):

        def exchange(a: Arguments, size: int = size) -> None:
            given, out = a[0].view(8, 32), a[1].view(8, 4, 32)
            for cta in range(8):
                base, rank = cta // size * size, cta % size
                group = given[base : base + size]
                equal(out[cta, 0], group[(rank + 1) % size])
                total = group.sum(0, dtype=torch.int32).flip(0) if rank == 0 else torch.zeros(32, dtype=torch.int32)
                equal(out[cta, 1], total)
                equal(out[cta, 2], group[(rank - 1) % size] * 3)
                assert (out[cta, 3] == rank * 100 + size).all()

        yield _launch(
            "cluster_exchange",
            (8, 1, 1),
            32,
            lambda draw: [draw.whole(-999, 999, 256), torch.zeros(1024, dtype=torch.int32)],
            exchange,
            name=f"cluster_exchange{size}",
            cluster=(size, 1, 1),
        )


def _image_3d(draw: Draw) -> Arguments:
    return [Map(draw.floats(5, 6, 48), (32, 4, 2)), torch.zeros(256, dtype=torch.int32), 1024, 16, 2, 4]


def _check_image_3d(a: Arguments) -> None:
    expected = torch.zeros(2, 4, 32)
    expected[:1] = a[0].tensor[4:5, 2:6, 16:48]
    equal(a[1].view(torch.float32).view(2, 4, 32), expected)


def _before_3d(draw: Draw) -> Arguments:
    return [Map(draw.floats(5, 6, 48), (32, 4, 2)), torch.zeros(256, dtype=torch.int32), 1024, -4, -1, -1]


def _check_before_3d(a: Arguments) -> None:
    expected = torch.zeros(2, 4, 32)
    expected[1, 1:, 4:] = a[0].tensor[0, :3, :28]
    equal(a[1].view(torch.float32).view(2, 4, 32), expected)


def _check_reduce(a: Arguments) -> None:
    expected = torch.zeros(20, 64)
    expected[:8, :32] = (10 + torch.arange(256.0)).view(8, 32)
    equal(a[0].tensor, expected)


def _bulk(draw: Draw) -> Arguments:
    return [draw.floats(3072), torch.zeros(3072), torch.zeros(1024)]


def _check_bulk(a: Arguments) -> None:
    equal(a[1], 2 * a[0])
    close(a[2], 2 * a[0].view(3, 1024).double().sum(0), 1e-5, 1e-5)


def _k_major(draw: Draw) -> Arguments:
    a, b = draw.floats(128, 256, dtype=torch.float16), draw.floats(192, 256, dtype=torch.float16)
    return [Map(a, (64, 64), 128), Map(b, (64, 64), 128), torch.zeros(128, 192), 192, 256]


def _mn_major(draw: Draw) -> Arguments:
    a, b = draw.floats(128, 256, dtype=torch.float16), draw.floats(256, 192, dtype=torch.float16)
    return [Map(a, (64, 64), 128), Map(b, (64, 64), 128), torch.zeros(128, 192), 192, 256]


def _check_gemm(a: Arguments) -> None:
    close(a[2], a[0].tensor.double() @ a[1].tensor.double().T, 1e-4, 1e-3)


def _check_gemm_bt(a: Arguments) -> None:
    close(a[2], a[0].tensor.double() @ a[1].tensor.double(), 1e-4, 1e-3)


def _register_a(draw: Draw) -> Arguments:
    return [*(draw.floats(64, 16, dtype=torch.float16) for _ in range(2)), torch.zeros(64, 64)]


def _check_register_a(a: Arguments) -> None:
    close(a[2], a[0].double() @ a[1].double().T + 1, 1e-4, 1e-3)


def _fragments(draw: Draw) -> Arguments:
    return [draw.whole(-(2**31), 2**31, 32, 4), torch.zeros(256, dtype=torch.int32)]


def _check_stmatrix(a: Arguments) -> None:
    registers, image = a[0].view(torch.int16).view(32, 4, 2), a[1].view(torch.int16).view(2, 4, 8, 8)
    for matrix in range(4):
        tile = registers[:, matrix, :].reshape(8, 8)
        equal(image[0, matrix], tile)
        equal(image[1, matrix], tile.T)
