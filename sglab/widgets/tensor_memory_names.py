"""What attention kernels call the matrices in tensor memory: S, P and O, where the roles of the code's warps say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sglab.events.tensor_memory import TensorMatrix
from sglab.events.tensor_memory.writes import KINDS

_CTA, _WARP = 1, 2  # columns of the moments, as are:
_KIND, _LANE, _LANES, _COLUMN, _COLUMNS = 4, 6, 7, 8, 9


def matrix_names(
    tiles: Sequence[TensorMatrix],
    moments: npt.NDArray[np.int32],
    roles: Mapping[str, str],
    ctas: Sequence[int],
) -> list[str]:
    """S0, S1, P0, O0, … where roles say so, else D0, D1, A0, …: every name counts for itself.

    A product that the softmax warps load is S, one that only others load is O; an operand that they store is P.

    Args:
        moments: of the launch: who loads and stores which cells.
        roles: "CTA warp" -> role; empty where the code has none.
        ctas: of the cluster's pair that is shown, by rank.
    """
    letters = [_letter(tile, moments, roles, ctas) for tile in tiles]
    return [f"{letter}{letters[:number].count(letter)}" for number, letter in enumerate(letters)]


def _letter(tile: TensorMatrix, moments: npt.NDArray[np.int32], roles: Mapping[str, str], ctas: Sequence[int]) -> str:
    if "softmax" not in roles.values():
        return tile.role
    if tile.role == "A":
        return "P" if "softmax" in _who(tile, moments, KINDS.index("st"), roles, ctas) else tile.role
    readers = _who(tile, moments, KINDS.index("ld"), roles, ctas)
    if "softmax" in readers:
        return "S"
    return "O" if readers else tile.role


def _who(
    tile: TensorMatrix, moments: npt.NDArray[np.int32], kind: int, roles: Mapping[str, str], ctas: Sequence[int]
) -> set[str]:
    """The roles of the warps that load or store some of its cells."""
    found: set[str] = set()
    mine = moments[moments[:, _KIND] == kind]
    for rank, lane, lanes, column, columns, *_ in tile.blocks:
        here = mine[
            (mine[:, _CTA] == ctas[rank])
            & (mine[:, _LANE] < lane + lanes)
            & (mine[:, _LANE] + mine[:, _LANES] > lane)
            & (mine[:, _COLUMN] < column + columns)
            & (mine[:, _COLUMN] + mine[:, _COLUMNS] > column)
        ]
        found |= {roles.get(f"{cta} {warp}", "") for cta, warp in np.unique(here[:, [_CTA, _WARP]], axis=0).tolist()}
    return found - {""}
