"""Questions of notebook 14: fragments, descriptors, tensor memory, CTA pairs, block scaling."""

from __future__ import annotations

from typing import Any

import torch

from sglab import layouts

from .attention_tile import O_COLUMNS, P_COLUMNS, S_COLUMNS, AttentionTile
from .code_question import CodeQuestion
from .exercises.functions import short
from .packed_fragment import PackQuestion, packed_fragment, small_product
from .question import Question
from .scaled_tile import ScaledTile
from .tensor_tiles import (
    ORDERS,
    Tile,
    WarpgroupTile,
    coordinates,
    descriptor,
    gathered,
    instruction,
    mma,
    random_operands,
    spread,
)

__all__ = [
    "ORDERS",
    "O_COLUMNS",
    "P_COLUMNS",
    "S_COLUMNS",
    "AttentionTile",
    "PackQuestion",
    "ScaledTile",
    "Tile",
    "WarpgroupTile",
    "coordinates",
    "descriptor",
    "gathered",
    "instruction",
    "mma",
    "packed_fragment",
    "random_operands",
    "small_product",
    "spread",
]

A, B, C = (f"mma.m16n8k16.f16.{operand}" for operand in "ABC")
CLOSE = 1e-3


def rows_of_exchanged_lanes(one: int = 0, other: int = 4) -> Question:
    """Rows of D that are wrong when two lanes have each other's registers of A."""

    def truth() -> set[int]:
        random = torch.Generator().manual_seed(1)
        a, b = (torch.randn(shape, generator=random).half() for shape in ((16, 16), (16, 8)))
        registers = spread(a, A)
        registers[[one, other]] = registers[[other, one]]
        d = gathered(mma(registers, spread(b, B)), C)
        wrong = (d - a.double() @ b.double()).abs().amax(1) > CLOSE
        return set(wrong.nonzero().flatten().tolist())

    return Question(
        truth=truth,
        because="{truth}: four neighbouring lanes share a row, and each has a second one eight rows further down.",
        hint="Press lane 0 in the Layout widget: it lights up in several rows. Then lane 4.",
        ideas=(
            ({one // 4, other // 4}, "Each lane has elements of two rows: the second is eight further down."),
            ({one, other}, "Lanes are not rows: four neighbouring lanes share a row."),
            (set(range(16)), "The other lanes still hold what they should."),
        ),
    )


def right_rows(stored_b: str = "128B") -> Question:
    """Rows (or elements) of D that are right where A (or both) lie in plain rows and the descriptor says 128B."""

    def truth() -> int:
        tile = WarpgroupTile(*random_operands(64), stored_a="plain", stored_b=stored_b)
        tile.run()
        right = (tile.result() - tile.product()).abs() < CLOSE
        return int(right.sum() if stored_b == "plain" else right.all(1).sum())

    if stored_b == "plain":
        return Question(
            truth=truth,
            because="{truth}: row r of A is read in the order c ^ (r mod 8), row n of B as c ^ (n mod 8). Where these "
            "agree, every factor still finds its partner: an eighth of 4,096. A test of the diagonal would pass!",
            hint="A sum of products does not care about their order. When are a row of A and a row of B read in the "
            "same wrong order?",
            ideas=(
                (64, "Those are eight rows of A and eight of B that are not moved at all. More pairs agree."),
                (0, "Where both are read in the same wrong order, every factor still finds its partner."),
            ),
        )
    return Question(
        truth=truth,
        because="{truth}: rows 0, 8, 16, …: chunk c is looked for at c ^ (r mod 8), which is c where r mod 8 is 0.",
        hint="The swizzle moves chunk c of row r to place c ^ (r mod 8). For which rows is that no change?",
        ideas=(
            (0, "In some rows the swizzle moves nothing."),
            (1, "Row 0 is one of them. The pattern repeats."),
            (32, "Even rows move, too: chunk c of row 2 is looked for at place c ^ 2."),
        ),
    )


def smem_descriptor() -> CodeQuestion:
    """To write: smem_descriptor(start, stride, swizzle) -> int, for tcgen05 and a K-major operand."""
    swizzles = ("none", "32B", "64B", "128B")

    def cases(random: torch.Generator) -> list[list[Any]]:
        def draw(high: int) -> int:
            return int(torch.randint(0, high, (), generator=random))

        return [[0, 1024, "128B"], *([draw(64) * 1024, (1 + draw(63)) * 128, swizzles[i % 4]] for i in range(8))]

    def without_units(start: int, stride: int, swizzle: str) -> int:
        return descriptor(0, 0, swizzle) | start | stride << 32

    def leading(start: int, stride: int, swizzle: str) -> int:
        return descriptor(start, 0, swizzle) | stride >> 4 << 16

    def counted(start: int, stride: int, swizzle: str) -> int:
        return descriptor(start, stride, "none") | swizzles.index(swizzle) << 61

    return CodeQuestion(
        function="smem_descriptor",
        cases=cases,
        truth=descriptor,
        because="CUTLASS calls it a UMMA descriptor.",
        shown=lambda value: f"{value:#018x}" if isinstance(value, int) else short(value),
        ideas=(
            (lambda *case: descriptor(*case) & ~(1 << 46), "Bits 46 and 47 hold a version. On Blackwell it is 1."),
            (
                lambda start, stride, swizzle: descriptor(start, stride, swizzle, "sm_90a"),
                "This is wgmma's descriptor. tcgen05's has a version, and the swizzle from bit 61 on.",
            ),
            (
                lambda *case: counted(*case) & ~(7 << 61) | descriptor(*case) >> 61 << 62,
                "The version is right. The swizzle is Hopper's, from bit 62 on: here it has bits 61 to 63.",
            ),
            (without_units, "Addresses and offsets count in units of 16 bytes."),
            (leading, "Bits 16 to 29 are for the other direction (LBO). Eight rows further is SBO, from bit 32 on."),
            (counted, "The codes of the swizzles are not 1, 2, 3: 6 is 32B, 4 is 64B, 2 is 128B."),
        ),
    )


def strange_tile() -> Tile:
    """A launch whose instruction descriptor is not what its caller meant: M = 128, N = 64."""
    a, b = random_operands()
    return Tile(a, b, instruction=instruction(128, 32))


def wrong_field(tile: Tile) -> Question:
    """The field of a tile's instruction descriptor that is not M = 128 or N = 64, and its value, as [field, value]."""

    def truth() -> list[object]:
        mmas = tile.record().mmas
        found: dict[str, int] = {"M": int(mmas.m[0]), "N": int(mmas.n[0])}
        ((field, value),) = (each for each in found.items() if each not in (("M", 128), ("N", 64)))
        return [field, value]

    return Question(
        truth=truth,
        because="{truth}: it is not checked against your tiles. What is not multiplied keeps what it held.",
        hint="tile.d[0] is tensor memory, 128 lanes × 128 columns, and held −1. Where does it still? No product should "
        "write to the columns from 64 on.",
        ideas=(
            (["M", 64], "All 128 lanes were written. Which columns were not?"),
            (["N", 128], "Too large an N would have written more columns. Here some are left at −1."),
            (["N", 64], "That is what its author meant."),
        ),
    )


def commit_first() -> Question:
    """What D's first element is read as where the commit comes before the products."""

    def truth() -> float:
        tile = Tile(*random_operands(), order="commit first")
        tile.run()
        return float(tile.d[0, 0, 0])

    return Question(
        truth=truth,
        because="{truth:g}: a commit covers what its thread started before it. That was nothing: it arrived at once.",
        hint="What does a commit wait for? What did tensor memory hold before the products?",
        ideas=((0.0, "Tensor memory was not zero before the products."),),
    )


def columns_left(head_dim: int = 64, keys: int = 128) -> Question:
    """Columns of tensor memory that are free beside two S (128 queries by `keys`) and two O (128 by `head_dim`)."""

    def truth() -> int:
        used = sum(layouts.fragment(f"tcgen05.mma.m128n{n}.D").registers for n in (keys, keys, head_dim, head_dim))
        return 512 - used

    return Question(
        truth=truth,
        because=f"{{truth}}: 512 − 2 · {keys} − 2 · {head_dim}. Two P of halves take {keys}: they would just fit "
        "beside "
        "their S, where 128 dims leave nothing.",
        hint="Each has 128 lanes, and a float32 takes a column.",
        ideas=(
            (512 - keys - head_dim, "There are two of each."),
            (0, "So it is with 128 dims, in the figure. Here O is narrower."),
            (512 - keys - 2 * head_dim, "A float32 takes a whole column, a half would take half of one."),
        ),
    )


def place_of_element(row: int, column: int) -> Question:
    """[CTA, lane, column of tensor memory] of an element of a CTA pair's D (256, 128)."""

    def truth() -> list[int]:
        tile = Tile(*coordinates(256, 128), pair=True)
        tile.run()
        ((place),) = (tile.d == 256 * row + column).nonzero().tolist()
        return place

    return Question(
        truth=truth,
        because="{truth}: with M = 256 each CTA keeps 128 rows of D, whole ones, though each brought only half of B.",
        hint="Each CTA has 128 lanes, for as many rows of D. lab.coordinates(256, 128) are operands whose D says what "
        "lies where: run a pair's tile on them and look at its d.",
        ideas=(
            ([0, row, column], "A CTA has 128 lanes: rows from 128 on are the other CTA's."),
            ([1, row, column], "Its lanes count from 0 in each CTA."),
            ([row - 128, 1, column], "The CTA comes first."),
        ),
    )


def scaled_by(lane: int, column: int, byte: int) -> Question:
    """[row of A, block of 32 along K] that the scale in a byte of tensor memory belongs to (mxf8)."""

    def truth() -> list[int]:
        a, b = random_operands(128, 64, 128)
        results = []
        for more in (0, 1):
            tile = ScaledTile(a, b, kind="mxf8")
            tile.scales_a[32 * column + lane, byte] += more  # a power of two more
            tile.run()
            results.append(tile.result())
        change = results[1] - results[0]
        (row,) = change.abs().amax(1).nonzero().flatten().tolist()
        parts = a[row].double().view(4, 32) * b.double().view(64, 4, 32)
        block = (parts.sum(-1) - change[row][:, None]).abs().sum(0).argmin()
        return [row, int(block)]

    return Question(
        truth=truth,
        because="{truth}: 32 lanes hold 32 rows, the next column the next 32, and a word's bytes are four blocks.",
        hint="A has 128 rows and four blocks of 32 along K: 512 scales, in 32 lanes × 4 columns × 4 bytes. Rows fill "
        "the lanes first.",
        ideas=(
            ([lane, byte], "Column 1 holds the scales of other rows than column 0."),
            ([32 * column + lane, column], "The byte says which block along K, the column which rows."),
            ([4 * lane + column, byte], "Rows fill the 32 lanes of a column first, then the next column."),
        ),
    )
