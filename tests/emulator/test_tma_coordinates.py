"""Tiles that hardware refuses to copy: found with the same launches on H100 and H200 (illegal instruction)."""

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from tests.support.corpus.launch import module


def copy(x: int, y: int) -> None:
    source, target = torch.zeros(40, 200).half(), torch.zeros(40, 200).half()
    maps = [gpu.TensorMap(tensor, (16, 64), swizzle=128) for tensor in (source, target)]
    args = [*maps, torch.zeros(512, dtype=torch.int32), 64, 16, 2048, x, y]
    module("sm90.sm_90a")["tma_copy_2d"].launch(gpu.EmulatedDevice("sm_90a"), 1, 64, smem=2048, args=args)


@pytest.mark.parametrize("x", [3, -3, 4, 190])
def test_the_innermost_coordinate_is_a_multiple_of_16_bytes(x: int) -> None:
    with pytest.raises(gpu.KernelError, match=rf"innermost coordinate {x} is not at a multiple of 16 bytes"):
        copy(x, 0)


@pytest.mark.parametrize(("x", "y", "dimension"), [(0, -5, 1), (-8, 0, 0), (-64, 3, 0)])
def test_a_store_does_not_begin_before_the_tensor(x: int, y: int, dimension: int) -> None:
    with pytest.raises(gpu.KernelError, match=f"negative coordinate {min(x, y)} in dimension {dimension}"):
        copy(x, y)


@pytest.mark.parametrize(("x", "y"), [(0, 0), (8, 3), (192, 30), (256, 64)])
def test_other_tiles_are_copied_wherever_they_lie(x: int, y: int) -> None:
    copy(x, y)
