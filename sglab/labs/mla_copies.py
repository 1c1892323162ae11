"""The exercises of notebooks 12 and 13: which copies bring a tile, and what a tile holds where no token is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from sglab.planning.mla_sm90 import TILE

from .code_question import CodeQuestion

BOX = 64
"""Tokens and columns of a copy."""
Blocks = tuple[Sequence[int], Sequence[int]]
"""Columns and rows at which copies begin."""


def copies_of_a_tile() -> CodeQuestion:
    """The exercise of writing copies(page, rank): coordinates (column, row, page), sorted, of a whole page of 128."""

    def cases(random: torch.Generator) -> list[list[Any]]:
        return [[page, rank] for page in torch.randint(1, 1000, (3,), generator=random).tolist() for rank in (0, 1)]

    def half_of_v(rank: int) -> list[int]:
        return [column for half in (0, 256) for column in range(half + 128 * rank, half + 128 * rank + 128, BOX)]

    def told(page: int, keys: Blocks, values: Blocks) -> list[list[int]]:
        return sorted([column, row, page] for columns, rows in (keys, values) for column in columns for row in rows)

    both, every, latent = [0, BOX], range(0, 576, BOX), range(0, 512, BOX)

    def right(page: int, rank: int) -> list[list[int]]:
        return told(page, (every, [BOX * rank]), (half_of_v(rank), both))

    return CodeQuestion(
        function="copies",
        cases=cases,
        truth=right,
        because="17 copies: these are the coordinates that the launch's TMA instructions have, for each whole page.",
        ideas=(
            (
                lambda page, rank: told(page, (every, both), (latent, both)),
                "That is everything, for both CTAs: each would bring all, and the pair would read the page twice over.",
            ),
            (
                lambda page, rank: told(page, (every, [BOX * rank]), (range(256 * rank, 256 * rank + 256, BOX), both)),
                "V goes by halves of each product: a product makes 256 columns of O, and each CTA brings 128 of these.",
            ),
            (
                lambda page, rank: told(page, (every, [BOX * rank]), (latent, [BOX * rank])),
                "P · V sums over the tokens: "
                "all 128 of them are needed, in the CTA's columns. V is divided by columns, K by tokens.",
            ),
            (
                lambda page, rank: told(page, (latent, [BOX * rank]), (half_of_v(rank), both)),
                "A key has 576 columns: the rotary part is missing.",
            ),
            (
                lambda page, rank: told(page, (every, [BOX * rank]), ([], [])),
                "That is K alone. As V the page comes again.",
            ),
        ),
    )


def tile_of_a_request() -> CodeQuestion:
    """The exercise of writing load_tile(cache, block_table, length, tile): 64 rows, zeros where no token is."""

    def cases(random: torch.Generator) -> list[list[Any]]:
        drawn = []
        for page_size, length, tile in (
            (64, 100, 0),
            (64, 77, 1),
            (32, 77, 1),
            (16, 64, 0),
            (16, 150, 2),
            (128, 300, 3),
        ):
            pages = -(-length // page_size)
            cache = torch.full((pages + 2, page_size, 8), torch.nan)
            table = torch.randperm(pages + 2, generator=random)[:pages]
            for i, page in enumerate(table.tolist()):
                held = min(page_size, length - i * page_size)
                cache[page, :held] = torch.randn(held, 8, generator=random)
            drawn.append([cache, torch.cat((table, torch.full((8,), -1))), length, tile])
        return drawn

    return CodeQuestion(
        function="load_tile",
        cases=cases,
        truth=_load_tile,
        because="Pages of 16 to 128 tokens, and NaN wherever no token is: none of it got into a tile.",
        ideas=(
            (
                lambda cache, table, length, tile: _load_tile(cache, table, length, tile, None),
                "Rows after the last token hold whatever was in the page, here NaN. They must be zeros.",
            ),
            (
                lambda cache, table, length, tile: _load_tile(cache, table, length, tile, torch.nan),
                "0 · NaN is NaN: multiplying by a mask does not clear a "
                "row. Write zeros over it, or copy only what is there.",
            ),
            (
                lambda cache, table, length, tile: cache[table[tile]],
                "That takes a page for a tile. A tile is 64 tokens, a page may be less or more: go by positions.",
            ),
            (
                lambda cache, table, length, tile: _load_tile(cache, table, length, tile)[: length - tile * TILE],
                "The tensor core multiplies 64 rows, always: return 64.",
            ),
        ),
    )


def _load_tile(
    cache: torch.Tensor, table: torch.Tensor, length: int, tile: int, fill: float | None = 0.0
) -> torch.Tensor:
    """64 rows of a request; `fill` is what rows without a token get, None: what lies in the last page."""
    positions = torch.arange(tile * TILE, (tile + 1) * TILE)
    there = positions.clamp(max=length - 1)
    page_size = cache.shape[1]
    rows = cache[table[there // page_size], positions % page_size]
    if fill is not None:
        rows[positions >= length] = fill
    return rows
