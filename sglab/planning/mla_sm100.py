"""The plan of our own SM100 MLA decode kernel: into how many splits each request is cut.

A CTA pair works on one split of one request at a time, in whole tiles of 128 tokens; the kernel deals a request's tiles
out evenly to its splits by rounding up, as CUTLASS's does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sglab.planning import check
from sglab.planning.arith import ceil_div
from sglab.planning.set_split_kv import CLUSTER_SIZE, MAX_SPLITS, TILE_S

Int32Array = NDArray[np.int32]
PAGE_SIZES = (16, 32, 64, 128)


@dataclass(frozen=True)
class MlaSm100Plan:
    """num_splits int32 (batch,): splits of each request that have tokens, 1 for a request of length 0

    Attributes:
        max_splits: the largest of them, which is the launch's third grid dimension.
        tiles_per_split: the most tiles that a CTA pair walks for one split.
    """

    num_splits: Int32Array
    max_splits: int
    tiles_per_split: int

    @property
    def units(self) -> int:
        """Splits of all requests together."""
        return int(self.num_splits.sum())


def mla_sm100_plan(seq_lens: ArrayLike, *, sm_count: int) -> MlaSm100Plan:
    """Cut every request into splits of at most so many tiles, the fewest with which all splits are resident at once.

    A split needs a CTA pair, which is two SMs. With more requests than CTA pairs nothing is split.

    Raises:
        ValueError: a length is negative.
    """
    tiles = ceil_div(check.lengths("seq_lens", seq_lens), TILE_S)
    pairs = max(check.integer("sm_count", sm_count, minimum=1) // CLUSTER_SIZE, 1)
    longest = max(int(tiles.max()), 1)
    low, high = max(ceil_div(longest, MAX_SPLITS), 1), longest
    while low < high:  # fewer tiles per split never need fewer splits
        middle = (low + high) // 2
        if _splits(tiles, middle).sum() <= pairs:
            high = middle
        else:
            low = middle + 1
    splits = _splits(tiles, low)
    return MlaSm100Plan(splits.astype(np.int32), int(splits.max()), low)


def launch_grid(batch: int, max_splits: int, *, sm_count: int, persistent: bool | None = None) -> tuple[int, int, int]:
    """CTAs of the launch. Individual, (2, batch, max_splits): a CTA pair per split. Persistent, (2, pairs, 1): each
    pair takes every pairs-th of the splits that have tokens, request by request.

    Args:
        persistent: None takes it where not all splits can be resident at once.
    """
    pairs = max(sm_count // CLUSTER_SIZE, 1)
    if persistent is None:
        persistent = batch * max_splits > pairs
    return (CLUSTER_SIZE, min(pairs, batch * max_splits), 1) if persistent else (CLUSTER_SIZE, batch, max_splits)


def _splits(tiles: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    return np.maximum(ceil_div(tiles, limit), 1)
