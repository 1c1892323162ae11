"""Questions of notebook 19, the first half: routing, blocks of a grouped GEMM, and the load of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from sglab.kernels import moe_align_block_size
from sglab.layers.moe import TopK

from .code_question import CodeQuestion
from .question import Question

if TYPE_CHECKING:
    from sglab.workbench.recorders.experts import RoutingRun


def routed(scores: Sequence[float], bias: Sequence[float] | None = None, **options: Any) -> dict[int, float]:
    """Expert -> weight of one token whose router gives these sigmoid scores.

    Args:
        options: of `sglab.layers.moe.TopK`.
    """
    logits = torch.logit(torch.tensor([list(scores)], dtype=torch.float64)).float()
    route = TopK(scoring="sigmoid", **options)
    weights, ids = route(logits, None if bias is None else torch.tensor(list(bias)))
    return {int(expert): float(weight) for expert, weight in zip(ids[0], weights[0], strict=True)}


def biased_weight(scores: Sequence[float], bias: Sequence[float], expert: int) -> Question:
    """The weight of an expert that its bias brought in."""
    found = routed(scores, bias, top_k=2)
    raised = [score + more for score, more in zip(scores, bias, strict=True)]
    return Question(
        truth=lambda: found[expert],
        because="{truth:.4f}: the bias chose, the plain scores weigh.",
        hint="Choose by score + bias. Then take the two scores without it, and divide by their sum.",
        ideas=(
            (
                raised[expert] / sum(raised[each] for each in found),
                "The bias only chooses. Weights are made of the scores.",
            ),
            (scores[expert], "The two weights of a token add up to 1 here: divide by their sum."),
        ),
    )


def grouped_experts(scores: Sequence[float], groups: int, kept: int) -> Question:
    """The experts of a token that may only choose from its best groups."""
    plain = set(sorted(range(len(scores)), key=lambda e: -scores[e])[:2])
    zero = [0.0] * len(scores)
    return Question(
        truth=lambda: set(routed(scores, zero, top_k=2, num_expert_group=groups, topk_group=kept)),
        because="{truth}: the best expert lies in a group that was left out.",
        hint="With a correction bias (here all zeros) a group's score is the sum of its two best experts.",
        ideas=((plain, "Those are the best two of all experts. First the groups are chosen."),),
    )


def busiest_share(run: RoutingRun, mixture: int, ranks: int) -> Question:
    """By how much the busiest rank exceeds the mean, experts placed in order."""
    load = run.place(ranks, 0)[0][mixture].rank_load
    return Question(
        truth=lambda: float(load.max() / load.mean()),
        because="{truth:.3f}: all other ranks wait until this one is through.",
        hint="run.load[mixture] has the tokens of each expert. Rank 0 holds the first of them, in equal shares.",
        ideas=((float(load.max() / load.sum()), "That is its share of all. Divide by the mean of the ranks instead."),),
    )


def copied_experts(run: RoutingRun, mixture: int, redundant: int) -> Question:
    """Which experts EPLB gives a second copy."""
    load = run.load[mixture].tolist()
    heaviest = sorted(range(len(load)), key=lambda e: -load[e])[:redundant]
    placed = run.place(2, redundant)[1][mixture].physical.tolist()
    return Question(
        truth=lambda: {expert for expert in set(placed) if placed.count(expert) > 1},
        because="{truth}: each copy goes to the expert with the highest load per copy at that moment.",
        hint="Give one copy to the heaviest expert and halve its load; then look again who is the heaviest.",
        ideas=(
            (
                set(heaviest),
                "Not simply the heaviest: a copy halves an expert's load, and a half may still be the highest.",
            ),
            (set(heaviest[:1]), "So goes the first copy. Where does the next one go?"),
        ),
    )


def rows_computed(tokens: int, top_k: int, block: int, experts: int) -> Question:
    """Rows of a grouped GEMM, when no two choices go to the same expert."""
    ids = torch.arange(tokens * top_k).reshape(tokens, top_k) % experts
    padded = int(moe_align_block_size(ids, block, experts)[2])
    return Question(
        truth=lambda: padded,
        because=f"{{truth}} for {tokens * top_k} rows of work: each expert has a block of {block} of its own.",
        hint="How many experts get a row, and how many rows does the tile of each have?",
        ideas=(
            (block, "A block belongs to one expert: its rows are multiplied with that expert's weights."),
            (tokens * top_k, "So many have something in them. Blocks are filled up with padding."),
        ),
    )


def _align(ids: list[list[int]], block: int, experts: int) -> tuple[list[int], list[int]]:
    """The truth, with the order inside an expert that the exercise asks for."""
    order, count, end = moe_align_block_size(torch.tensor(ids), block, experts)
    size = int(end)
    blocks = [sorted(order[i : i + block].tolist()) for i in range(0, size, block)]
    owners = count[: size // block].tolist()
    rows: list[int] = []
    for expert in range(experts):
        rows += sorted(row for held, owner in zip(blocks, owners, strict=True) if owner == expert for row in held)
    return rows, owners


def _unpadded(ids: list[list[int]], block: int, experts: int) -> tuple[list[int], list[int]]:
    flat = [expert for row in ids for expert in row]
    return sorted(range(len(flat)), key=lambda at: flat[at]), sorted(flat)


def _filled(ids: list[list[int]], block: int, experts: int, fill: int) -> tuple[list[int], list[int]]:
    rows, owners = _align(ids, block, experts)
    pad = sum(len(row) for row in ids)
    return [fill if row == pad else row for row in rows], owners


def _owner_per_row(ids: list[list[int]], block: int, experts: int) -> tuple[list[int], list[int]]:
    rows, owners = _align(ids, block, experts)
    return rows, [owner for owner in owners for _ in range(block)]


def _unpadded_blocks(ids: list[list[int]], block: int, experts: int) -> tuple[list[int], list[int]]:
    return _unpadded(ids, block, experts)[0], _align(ids, block, experts)[1]


def _empty_blocks(ids: list[list[int]], block: int, experts: int) -> tuple[list[int], list[int]]:
    rows, owners = _align(ids, block, experts)
    pad = sum(len(row) for row in ids)
    made: tuple[list[int], list[int]] = ([], [])
    for expert in range(experts):
        held = [row for at, row in enumerate(rows) if owners[at // block] == expert] or [pad] * block
        made[0].extend(held)
        made[1].extend([expert] * (len(held) // block))
    return made


def _tokens(ids: list[list[int]], block: int, experts: int) -> tuple[list[int], list[int]]:
    rows, owners = _align(ids, block, experts)
    pad = sum(len(row) for row in ids)
    return [row if row == pad else row // len(ids[0]) for row in rows], owners


def _choices(random: torch.Generator) -> list[list[Any]]:
    def draw(tokens: int, top_k: int, experts: int, block: int) -> list[Any]:
        rows = [torch.randperm(experts, generator=random)[:top_k].tolist() for _ in range(tokens)]
        return [rows, block, experts]

    return [[[[1], [0], [1]], 2, 3], draw(4, 2, 5, 4), draw(1, 3, 8, 4), draw(20, 2, 8, 8), draw(33, 2, 4, 16)]


def align() -> CodeQuestion:
    """Choices sorted by expert, each expert's padded to whole blocks."""
    return CodeQuestion(
        function="align",
        cases=_choices,
        truth=_align,
        because="Now every block of the GEMM has one expert's weights to load, and no more.",
        ideas=(
            (
                _unpadded,
                "The order is right. Each expert's rows must fill whole blocks, and there is an expert per block.",
            ),
            (
                lambda ids, block, experts: _filled(ids, block, experts, 0),
                "0 is the first choice of the first token. Pad with the number of choices.",
            ),
            (
                lambda ids, block, experts: _filled(ids, block, experts, -1),
                "Pad with the number of choices, which no choice has, not with -1.",
            ),
            (
                _unpadded_blocks,
                "An expert per block is right. But its rows must fill whole blocks: the number of choices pads them.",
            ),
            (_empty_blocks, "An expert without a choice gets no block: nothing of it is computed."),
            (
                _tokens,
                "Those are the tokens' numbers. A choice's is token · choices per token + choice, so that the kernel "
                "knows its weight, too.",
            ),
            (
                lambda ids, block, experts: (_align(ids, block, experts)[0], sorted({e for row in ids for e in row})),
                "An expert with more rows than a block has several blocks, and stands in the second list for each.",
            ),
            (_owner_per_row, "The second list has one expert per block, not per row."),
        ),
    )
