"""Questions of notebook 15: why prefill computes, tiles and masks, the online softmax, schedules, chunks, pages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch

from sglab.events.log import EventLog
from sglab.planning.fa3_tile_size import tile_size_fwd_sm90, uses_paged_kv_tma

from .attention_tile import DIM, KEYS, O_COLUMNS, POLYNOMIAL, QUERIES, AttentionTile
from .code_question import CodeQuestion
from .question import Question, Verdict
from .schedule import B200, H100, Plan

__all__ = ["B200", "H100", "KEYS", "POLYNOMIAL", "QUERIES", "AttentionTile", "Plan"]

H100_FLOPS, H100_BYTES = 989.4e12, 3.35e12
"""Dense bfloat16 operations and bytes of memory a second: NVIDIA, H100 SXM data sheet."""
COLUMN, HALF = 0xFFFF, 2


def flop_per_byte(new_tokens: int, context: int, heads: int = 32, kv_heads: int = 8, dim: int = 128) -> float:
    """Operations of attention over bytes that it must move, 16-bit: every new token sees the whole context."""
    flop = 4 * new_tokens * context * heads * dim
    nbytes = HALF * dim * (2 * context * kv_heads + 2 * new_tokens * heads)
    return flop / nbytes


def tokens_to_compute(context: int, heads: int = 32, kv_heads: int = 8) -> Question:
    """New tokens from which on an H100's attention over a context is bound by computing."""

    def truth() -> int:
        enough = (
            n for n in range(1, context + 1) if flop_per_byte(n, context, heads, kv_heads) >= H100_FLOPS / H100_BYTES
        )
        return next(enough)

    return Question(
        truth=truth,
        because="{truth}: one token fetches every key for four query heads; so many fetch it for four times as many.",
        hint="An H100 does 295 operations in the time in which it fetches a byte. From how many new tokens on is "
        "lab.flop_per_byte(new_tokens, context), for 32 heads over 8 KV heads, at least that?",
        ideas=(
            (
                math.ceil(H100_FLOPS / H100_BYTES * kv_heads / heads),
                "Nearly: that counts the bytes of keys and values alone. The new tokens' queries and outputs are "
                "moved, too, and lab.flop_per_byte counts them.",
            ),
            (
                math.ceil(H100_FLOPS / H100_BYTES),
                "That is what an H100 does per byte. How many operations does a new token make with a byte of a key?",
            ),
        ),
    )


def tiles_computed(log: EventLog) -> Question:
    """Tiles of scores that a recorded launch of the attention tile computes, in all CTAs."""

    def truth() -> int:
        scores = (log.mmas.d & COLUMN) < O_COLUMNS.start
        return int(scores.sum()) // 4

    return Question(
        truth=truth,
        because="{truth}: each CTA ends with the tile that holds the last key its last query sees.",
        hint="A CTA has 128 queries, a tile 64 keys. At which position stands the last query of CTA 0?",
        ideas=(
            (33, "Those are all. Tiles that no query of the CTA may see are left out."),
            (
                18,
                "That is a half, as of a prompt that stands alone. The queries here are the last 300 of 700 positions.",
            ),
        ),
    )


def tiles_with_a_mask(tile: AttentionTile) -> Question:
    """Tiles that a launch computes and of which the mask hides a part."""

    def truth() -> int:
        seen = tile.scores() > -math.inf
        blocks = [part for rows in seen.split(QUERIES) for part in rows.split(KEYS, 1)]
        return sum(bool(part.any() and not part.all()) for part in blocks)

    return Question(
        truth=truth,
        because="{truth}: from what the first query of a CTA sees to what the last one does. Elsewhere FlashAttention "
        "leaves the comparison out.",
        hint="In which tiles does some query see some of the keys, but not all of them all?",
        ideas=(
            (3, "One per CTA? A CTA has 128 queries, a tile 64 keys: the diagonal crosses more than one."),
            (0, "The diagonal crosses tiles: there some scores are hidden."),
        ),
    )


def key_tiles() -> CodeQuestion:
    """To write: key_tiles(block, queries, keys, rows, width) -> [whole, all]."""

    def by_mask(block: int, queries: int, keys: int, rows: int, width: int) -> list[int]:
        row = np.arange(block * rows, min((block + 1) * rows, queries))[:, None]
        seen = np.arange(keys) <= row + keys - queries
        parts = [seen[:, start : start + width] for start in range(0, keys, width)]
        return [sum(bool(p.all()) and p.shape[1] == width for p in parts), sum(bool(p.any()) for p in parts)]

    def cases(random: torch.Generator) -> list[list[Any]]:
        def draw(low: int, high: int) -> int:
            return int(torch.randint(low, high, (), generator=random))

        made: list[list[Any]] = [
            [0, 512, 512, 128, 64],
            [3, 512, 512, 128, 64],
            [1, 256, 2048, 128, 64],
            [0, 70, 300, 64, 64],
            [1, 70, 300, 64, 64],
            [2, 300, 700, 128, 64],
        ]
        for _ in range(8):
            queries, rows = draw(1, 400), 2 ** draw(4, 8)
            made.append([draw(0, -(-queries // rows)), queries, queries + draw(0, 600), rows, 2 ** draw(4, 8)])
        return made

    def top_left(block: int, queries: int, keys: int, rows: int, width: int) -> list[int]:
        return by_mask(block, keys, keys, rows, width)

    def without_offset(block: int, queries: int, keys: int, rows: int, width: int) -> list[int]:
        return by_mask(block, queries, queries, rows, width)

    def to_its_own_position(block: int, queries: int, keys: int, rows: int, width: int) -> list[int]:
        first, last = block * rows + keys - queries, min((block + 1) * rows, queries) - 1 + keys - queries
        return [first // width, -(-last // width)]

    def every(block: int, queries: int, keys: int, rows: int, width: int) -> list[int]:
        return [by_mask(block, queries, keys, rows, width)[0], -(-keys // width)]

    def unclipped(block: int, queries: int, keys: int, rows: int, width: int) -> list[int]:
        last = (block + 1) * rows + keys - queries
        return [by_mask(block, queries, keys, rows, width)[0], -(-last // width)]

    def first_of_the_last(block: int, queries: int, keys: int, rows: int, width: int) -> list[int]:
        found = by_mask(block, queries, keys, rows, width)
        return [found[1] - 1, found[1]]

    return CodeQuestion(
        function="key_tiles",
        cases=cases,
        truth=by_mask,
        because="These are a kernel's loop bounds: no mask up to the first, masked up to the second.",
        ideas=(
            (top_left, "The queries are the last positions: query i stands at i + keys − queries. Yours stand at i."),
            (
                without_offset,
                "The queries are the last positions: query i stands at i + keys − queries. Yours stand at i.",
            ),
            (to_its_own_position, "A query sees its own position, too: from position p on, that is p + 1 keys."),
            (every, "No tile is skipped: the block's last query ends the loop."),
            (unclipped, "The last block may have fewer queries than rows."),
            (first_of_the_last, "Whole tiles are those that the block's *first* query sees to the end."),
        ),
    )


def corrections(threshold: float = 8.0, rising: float = 3.0) -> Question:
    """How often a warp corrects O, over ten tiles whose maximum rises by `rising` powers of two each."""

    def truth() -> int:
        tile = AttentionTile(keys=640, threshold=threshold, rising=rising, spread=0.0)
        tile.run()
        (times,) = set(tile.rescaled.flatten().tolist())
        return int(times)

    return Question(
        truth=truth,
        because="{truth}: after three tiles it has grown by 9. Then the new maximum is taken, and it starts again.",
        hint="Nothing happens while the growth since the last correction is at most 8. It grows by 3 per tile.",
        ideas=(
            (9, "That is at every rise, as with a threshold of 0. Two rises of 3 together are still below 8."),
            (0, "No single rise exceeds 8. But what counts is the growth since the last correction: rises add up."),
        ),
    )


def largest_threshold() -> Question:
    """The largest whole threshold at which O stays finite, P being float16."""

    def truth() -> int:
        def finite(threshold: int) -> bool:  # the second tile's maximum is higher by just less than the threshold
            tile = AttentionTile(keys=128, threshold=threshold, spread=0.0)
            wanted = torch.arange(128) // KEYS * (threshold * (1 - 1e-5) * DIM**0.5 / math.log2(math.e))
            tile.q[:, :2] = 1.0
            tile.k[:, 0] = wanted.half()
            tile.k[:, 1] = (wanted - tile.k[:, 0]).half()  # what float16 has rounded away
            tile.run()
            return bool(tile.o.isfinite().all())

        return max(threshold for threshold in range(8, 20) if finite(threshold))

    return Question(
        truth=truth,
        because="{truth}: P may then be 2^{truth}, and float16 ends at 65,504. In bfloat16 it would have room.",
        hint="P is at most 2 to the threshold, and is stored as float16. What is the largest float16?",
        ideas=((16, "Nearly: 2^16 is 65,536, and the largest float16 is 65,504."),),
    )


@dataclass(frozen=True)
class PolynomialQuestion:
    """Three coefficients c with 1 + c₁ f + c₂ f² + c₃ f³ ≈ 2^f on [0, 1): judged by their worst relative error."""

    most: float = 2e-4

    def check(self, given: Any = ...) -> Verdict:
        """Judge a list of three numbers; `...` means that there is none yet."""
        if given is ...:
            return Verdict(None, "Put your three coefficients in the place of the ... and run the cell again.")
        try:
            c = [float(each) for each in given]
        except (TypeError, ValueError):
            return Verdict(False, f"The answer is three numbers; this is of type {type(given).__name__}.")
        if len(c) != 3:
            return Verdict(False, f"The answer is three numbers, c1, c2 and c3; these are {len(c)}.")
        worst, at = polynomial_error(c)
        told = f"The worst relative error is {worst:.1e}, at f = {at:.2f}."
        if worst <= self.most:
            return Verdict(True, f"{told} float16, which P becomes, has 4.9e-04.")
        taylor = [math.log(2) ** n / math.factorial(n) for n in (1, 2, 3)]
        if np.allclose(c, taylor, rtol=1e-3):
            return Verdict(
                False, f"{told} This is Taylor's series: exact at 0, worst at 1. Spread the error over [0, 1)."
            )
        if abs(1 + sum(c) - 2) > 1e-2:
            told += f" At f = 1 yours gives {1 + sum(c):.3f}; 2 is wanted, or the next power of two begins with a jump."
        return Verdict(False, f"{told} At most {self.most:.0e} is wanted.")


def polynomial_error(coefficients: Sequence[float]) -> tuple[float, float]:
    """The worst relative error of 1 + c₁ f + c₂ f² + … against 2^f on [0, 1], and where it is."""
    f = np.linspace(0, 1, 10_001)
    error = np.abs(np.polynomial.Polynomial([1.0, *coefficients])(f) / 2**f - 1)
    return float(error.max()), float(f[error.argmax()])


def exponentials(log: EventLog) -> int:
    """ex2.approx instructions that warps executed in a recorded launch."""
    pcs = [pc for pc, (_, opcode, *_) in enumerate(log.code.rows) if opcode.startswith("ex2.approx")]
    return int(np.isin(log.pc, pcs).sum())


def enough_polynomial() -> Question:
    """Of 16 exponentials, the fewest by polynomial with which the model's tensor cores never wait (B200, no fixes)."""

    def truth() -> int:
        plans = (Plan(B200, polynomial=Fraction(n, 16), corrects=False) for n in range(17))
        return next(n for n, plan in enumerate(plans) if plan.tensor_share() == 1.0)

    return Question(
        truth=truth,
        because="{truth} of 16: then a tile's softmax fits into the two products of the other tile.",
        hint="Plan(lab.B200, polynomial=n / 16, corrects=False).tensor_share(), for n = 0, 1, 2, …",
        ideas=(
            (16, "Then FMA units would have all of it, and would be the bottleneck themselves. Fewer are enough."),
            (0, "Without, the exponentials are the longest step."),
        ),
    )


def cache_read_by_chunks(prompt: int, chunk: int) -> Question:
    """Keys that the passes of a chunked prefill read in all, over the prompt's length."""
    return Question(
        truth=lambda: sum(range(chunk, prompt + 1, chunk)) / prompt,
        because="{truth}: 1 + 2 + 3 + 4 chunks of keys for four. The scores are the same, each computed once.",
        hint="Chunk i sees its own keys and those of all chunks before it, and reads them again.",
        ideas=(
            (1, "So many are read in one pass. A later chunk attends to all keys before it: these are read again."),
            (prompt / chunk, "So many would be read if every pass read all keys. The first chunk sees only its own."),
        ),
    )


def pages_for_tma(page_sizes: Sequence[int] = (1, 16, 64, 128, 256), prompt: int = 4096) -> Question:
    """The page sizes whose pages FlashAttention-3 loads by TMA: head dim 128, causal, a long prompt."""

    def truth() -> set[int]:
        rows, keys = tile_size_fwd_sm90(128, 128, is_causal=True)
        return {size for size in page_sizes if uses_paged_kv_tma(size, rows, keys, prompt, 1)}

    return Question(
        truth=truth,
        because="{truth}: a page must hold whole tiles of 128 keys. Otherwise threads gather rows with cp.async.",
        hint="tile_size_fwd_sm90(128, 128, is_causal=True), from sglab.planning.fa3_tile_size, are rows and keys of a "
        "tile. A box of TMA stays in one page.",
        ideas=(
            (set(page_sizes), "A box of TMA stays in a page: pages of one token would be a copy per row."),
            ({128}, "Larger pages hold whole tiles, too."),
            ({64, 128, 256}, "A tile has 128 keys here: it would need two boxes of 64."),
            ({256}, "A page of exactly one tile will do."),
        ),
    )


def chunked(prompt: AttentionTile, chunk: int) -> tuple[torch.Tensor, list[AttentionTile]]:
    """The prompt's O computed chunk after chunk, and the passes: each is a launch over all keys so far."""
    passes = []
    for start in range(0, prompt.queries, chunk):
        end = min(start + chunk, prompt.queries)
        one = AttentionTile(end - start, end, causal=True)
        one.q, one.k, one.v = prompt.q[start:end], prompt.k[:end], prompt.v[:end]
        one.run()
        passes.append(one)
    return torch.cat([each.o for each in passes]), passes
