"""Tile sizes of the grouped stage 1, which MLA decode shares."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DecodeTile:
    """How a program of stage 1 cuts its work: query heads × keys per step, warps, stages of the load pipeline."""

    heads: int
    keys: int
    num_warps: int
    num_stages: int


def grouped_tile(group: int, qk_dim: int, element_size: int, major: int) -> DecodeTile:
    """Tile of the grouped stage 1, for `group` query heads per KV head on compute capability `major`.x.

    A block of heads reads the keys once, so many heads per block save L2 traffic; their accumulator (heads × v_dim
    float32) must fit the registers, their queries and the keys in flight the shared memory. One load stage goes to the
    slot numbers, so double-buffered keys need more stages than usual. Chosen so that ptxas reports next to no spills.
    """
    wide = qk_dim > 256
    if element_size == 4:
        return DecodeTile(heads=16, keys=16, num_warps=8, num_stages=1) if wide else DecodeTile(16, 32, 4, 1)
    if group <= 16:
        return DecodeTile(heads=16, keys=64, num_warps=8 if wide else 4, num_stages=4)
    if wide and group >= 64 and major == 9:
        return DecodeTile(heads=64, keys=64, num_warps=8, num_stages=3)  # wgmma, which needs 64 rows
    return DecodeTile(heads=32, keys=64, num_warps=8 if wide else 4, num_stages=3)
