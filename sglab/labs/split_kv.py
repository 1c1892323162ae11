"""Questions of notebook 04: how planners cut requests, and how partials become the answer again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sglab.planning import PLANNERS, copied_workspace_size, set_split_kv, set_split_kv_cluster_aware, split_ranges
from sglab.planning.flashinfer_decode import partition_paged_kv_cache

from .code_question import CodeQuestion
from .question import Question

if TYPE_CHECKING:
    from sglab.planning.flashinfer_decode import DecodePlan

NUM_HEADS = 128
"""What the CUTLASS MLA kernel computes."""


def busy_sms(planner: str, seq_lens: Sequence[int], sm_count: int) -> Question:
    """SMs that get any work."""

    def truth() -> int:
        plan = PLANNERS[planner](seq_lens, num_heads=128, num_kv_heads=1, sm_count=sm_count)
        return len(np.unique(plan.work.sm))

    return Question(
        truth=truth,
        because=f"{{truth}} of {sm_count}: one CTA pair per request and split, one CTA per SM.",
        hint="One request, one split. How many CTAs does this kernel launch for it, and on how many SMs do they run?",
        ideas=(
            (1, "A split of this kernel is a pair of CTAs, and each has an SM."),
            (sm_count, "All of them would be busy if the request were cut. This backend asks for one split."),
            (64, "Heads are not spread over SMs: each CTA of the pair has 64 of the 128."),
        ),
    )


def upstream_splits(K: int, B: int, sm_count: int) -> Question:
    """What CUTLASS's set_split_kv answers."""
    chosen = set_split_kv(K, B, sm_count)
    return Question(
        truth=lambda: chosen.split_kv,
        because=(
            f"{{truth}}: a budget of {sm_count} // {B} = {sm_count // B} splits, evened out over {-(-K // 128)} tiles. "
            f"But a split is a pair of CTAs: {chosen.ctas} CTAs on {sm_count} SMs are {chosen.waves:.2f} waves."
        ),
        hint="tiles = ceil(K / 128); budget = min(tiles, SMs // B); per_split = ceil(tiles / budget); ceil again.",
        ideas=(
            (
                sm_count // B,
                "That is the budget. Tiles are dealt out whole: how many per split, and how many splits are that?",
            ),
            (-(-K // 128), "So many tiles there are; there are not SMs enough for a split each."),
            (sm_count // (2 * B), "This planner does not know yet that a split takes two SMs."),
            (
                set_split_kv_cluster_aware(K, B, sm_count).split_kv,
                "That is what FlashInfer's copy chooses. CUTLASS's budget is twice as large.",
            ),
        ),
    )


def cluster_aware_splits(K: int, B: int, sm_count: int) -> Question:
    """What FlashInfer's set_split_kv answers."""
    chosen = set_split_kv_cluster_aware(K, B, sm_count)
    return Question(
        truth=lambda: chosen.split_kv,
        because=f"{{truth}}: half the budget, {chosen.ctas} CTAs, {chosen.waves:.2f} waves. No second turn.",
        hint="The same steps, with a budget of SMs // (2 · B): a split takes two SMs.",
        ideas=(
            (
                set_split_kv(K, B, sm_count).split_kv,
                "That is CUTLASS's choice. With two SMs to a split the budget is half.",
            ),
            (sm_count // (2 * B), "That is the budget. Now even it out over the tiles, as above."),
        ),
    )


def workspace_bytes(split_kv: int, B: int) -> Question:
    """Bytes that hold the partials of one launch."""
    return Question(
        truth=lambda: copied_workspace_size(split_kv, B),
        because=(
            f"{{truth}} bytes = {B} requests × {split_kv} splits × {NUM_HEADS} heads × (512 of O + 1 LSE) × 4 bytes."
        ),
        hint="A partial is 512 float32 of O and 1 float32 of LSE. There is one per request, split and head (128).",
        ideas=(
            (B * split_kv * NUM_HEADS * 512 * 2, "Partials are float32, and each has an LSE beside its 512 numbers."),
            (B * split_kv * NUM_HEADS * 512 * 4, "Each partial has an LSE, too."),
            (B * split_kv * NUM_HEADS * 513, "So many numbers. A float32 has four bytes."),
            (split_kv * NUM_HEADS * 513 * 4, "That is one request's."),
        ),
    )


def last_split_tokens(seq_len: int, split_kv: int) -> Question:
    """Tokens left for the last split of a request."""

    ranges = split_ranges([seq_len], split_kv)
    tokens = ranges.token_end[0] - ranges.token_start[0]
    shares = [int(each) for each in tokens if each > 0]
    tiles = -(-seq_len // 128)
    return Question(
        truth=lambda: shares[-1],
        because=(
            f"{{truth}}: {tiles} tiles of 128 in {split_kv} splits are {-(-tiles // split_kv)} tiles each, rounded up. "
            f"The splits get {', '.join(map(str, shares))} tokens: the last one takes what is left."
        ),
        hint="Count in tiles of 128 tokens, round tiles per split up, and see where the last split starts.",
        ideas=(
            (seq_len // split_kv, "Tokens are not divided, tiles of 128 are, and rounded up."),
            (
                seq_len - (split_kv - 1) * (seq_len // split_kv),
                "Tokens are not divided, tiles of 128 are, and rounded up.",
            ),
            (seq_len % 128, "That is the last tile. A split has several."),
            (
                seq_len - (split_kv - 1) * (tiles // split_kv) * 128,
                "Tiles per split are rounded up: rounded down, tiles would be left over.",
            ),
        ),
    )


def wrong_merge_inflation(lse: torch.Tensor) -> Question:
    """By which factor a merge that divides by exp(max LSE), instead of the sum of exps, inflates the output."""
    return Question(
        truth=lambda: float((lse.double() - lse.double().max()).exp().sum()),
        because="{truth:.4f}: the weights exp(lse_i − max) add up to that, not to 1.",
        hint="Weights that divide by exp(max) add up to the sum of exp(lse_i − max). What is that sum here?",
        ideas=(
            (len(lse), "So it would be if all parts weighed the same. Here they do not."),
            (
                1 / float((lse.double() - lse.double().max()).exp().sum()),
                "By that the wrong result has to be multiplied to be right. How much too large is it?",
            ),
            (float(lse.double().exp().sum()), "Divide that by exp of the largest LSE, as the wrong merge does."),
        ),
    )


def least_idle(planners: Iterable[str], seq_lens: Sequence[int], sm_count: int) -> Question:
    """The planner whose plan leaves the SMs idle the least, by the model."""

    def truth() -> str:
        shares = {
            name: PLANNERS[name](seq_lens, num_heads=128, num_kv_heads=1, sm_count=sm_count).idle_share
            for name in planners
        }
        return min(shares, key=lambda name: shares[name])

    return Question(
        truth=truth,
        because="{truth}: it gives out equal shares of all the work, and lets a CTA continue with the next request.",
        hint="Compare the column idle in the table below the charts. The name is one of names, in quotes.",
        ideas=(
            (
                "cutlass_mla_individual",
                "One number of splits for the whole launch: the short requests' units have hardly anything to do.",
            ),
            (
                "flashinfer_cutlass_mla",
                "It minds that a split takes two SMs, but deals out splits request by request, not the whole of "
                "the work.",
            ),
        ),
    )


def partials_of(plan: DecodePlan, request: int) -> Question:
    """Partials per head that the merge of one request reads, by FlashInfer's decode plan."""
    return Question(
        truth=lambda: int(plan.o_indptr[request + 1] - plan.o_indptr[request]),
        because="{truth}: its chunks, each a row of partial output, from o_indptr[i] up to o_indptr[i + 1].",
        hint="o_indptr is a running total: where do the request's rows start, and where the next one's?",
        ideas=(
            (int(plan.o_indptr[request + 1]), "That is where its rows end. Where do they begin?"),
            (int(plan.o_indptr[request]), "That is where its rows begin. How many are there up to the next request's?"),
        ),
    )


def smallest_chunk() -> CodeQuestion:
    """The exercise of writing chunk(pages, kv_heads, ctas), FlashInfer's partition_paged_kv_cache."""

    def cases(random: torch.Generator) -> list[list[Any]]:
        # These tell each known idea from the rest, whatever is drawn after them.
        drawn: list[list[Any]] = [[[10], 1, 5], [[7, 3], 1, 4], [[5, 5, 5], 1, 4], [[10, 10], 2, 6]]
        for ctas in (16, 264, 264, 592):
            requests = int(torch.randint(2, 9, (), generator=random))
            pages = torch.randint(1, 2000, (requests,), generator=random).tolist()
            drawn.append([pages, 2 ** int(torch.randint(1, 4, (), generator=random)), ctas])
        return [*drawn, [[5, 9, 4], 8, 16]]

    def least(pages: list[int], fits: Callable[[int], bool]) -> int:
        return next((n for n in range(1, max(pages)) if fits(n)), max(pages))

    def count(pages: list[int], size: int) -> int:
        return sum(-(-n // size) for n in pages)

    return CodeQuestion(
        function="chunk",
        cases=cases,
        truth=lambda pages, heads, ctas: partition_paged_kv_cache(ctas, heads, pages)[0],
        because="FlashInfer's own search finds the same, by bisection: the number of chunks only falls as they grow.",
        ideas=(
            (
                lambda p, h, c: least(p, lambda n: count(p, n) <= c),
                "Each KV head takes its chunks for itself: multiply by kv_heads.",
            ),
            (
                lambda p, h, c: least(p, lambda n: count(p, n) * h < c),
                "All may be taken: as many CTAs as there are do fit.",
            ),
            (
                lambda p, h, c: least(p, lambda n: sum(x // n for x in p) * h <= c),
                "A last chunk that is not full takes a CTA, too: round up.",
            ),
            (
                lambda p, h, c: min(max(p), -(-sum(p) * h // c)),
                "The mean forgets that every request rounds up on its own: count the chunks.",
            ),
            (
                lambda p, h, c: least(p, lambda n: count(p, n) * h <= c) if len(p) * h <= c else None,
                "Where not even a chunk per request fits, no size will: stop at the longest request.",
            ),
        ),
    )
