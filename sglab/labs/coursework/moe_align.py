"""Lab 08: moe_align_block_size as a kernel of one CTA."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, CudaExercise, Run
from sglab.labs.lab import Criterion, Exercise, Hint, Idea, Lab, Mark
from sglab.labs.question import Question

from .kernel_marks import Report, clean, failure, marks, symptom, symptom_ideas, total

THREADS, UNTOUCHED = 128, -7
MOST_READS, MOST_INSTRUCTIONS = 2.5, 6000


def aligned(topk: Any, block: int, experts: int) -> dict[str, Any]:
    """The truth: the choices of each expert, its number of blocks, and the padded total."""
    choices = [np.flatnonzero(topk == expert) for expert in range(experts)]
    blocks = [-(-len(each) // block) for each in choices]
    return {
        "choices": choices,
        "experts": np.repeat(np.arange(experts), blocks),
        "total": sum(blocks) * block,
        "block": block,
        "topk": topk,
    }


def run(random: np.random.Generator, name: str, choices: int, experts: int, block: int, skew: bool = False) -> Run:
    topk = random.integers(0, experts, choices, dtype=np.int32)
    if skew:
        topk = (topk // 3 * 3 % experts).astype(np.int32)  # no token chooses some experts
    room = -(-choices // block) * block + 2 * experts * block  # more than is needed: wrong sizes stay within
    return Run(
        name,
        {
            "topk_ids": topk,
            "sorted_ids": np.full(room, UNTOUCHED, np.int32),
            "expert_ids": np.full(room // block, UNTOUCHED, np.int32),
            "num_post_pad": np.full(1, UNTOUCHED, np.int32),
        },
        ("sorted_ids", "expert_ids", "num_post_pad"),
        launch={
            "entry": "moe_align",
            "grid": [1],
            "block": [THREADS],
            "args": [
                *({"buffer": each} for each in ("topk_ids", "sorted_ids", "expert_ids", "num_post_pad")),
                *(choices, experts, block),
            ],
        },
        truth=aligned(topk, block, experts),
    )


def runs(random: np.random.Generator) -> list[Run]:
    return [
        run(random, "many", int(random.integers(300, 400)), 16, 16),
        run(random, "some experts without choices", int(random.integers(20, 60)), 12, 8, skew=True),
        run(random, "few", int(random.integers(1, 9)), 32, 4),
    ]


def sorted_right(one: Run, report: Report) -> bool:
    truth, ids = one.truth, report["buffers"]["sorted_ids"]
    start = 0
    for choices in truth["choices"]:
        end = start + -(-len(choices) // truth["block"]) * truth["block"]
        mine = np.sort(ids[start:end])
        padded = np.concatenate([choices, np.full(end - start - len(choices), len(truth["topk"]))])
        if not np.array_equal(mine, np.sort(padded)):
            return False
        start = end
    return True


def judged(exercise: Exercise, runs: Sequence[Run], reports: list[Report]) -> list[Mark]:
    done = [not failure(report) for report in reports]
    count = [
        ok and int(r["buffers"]["num_post_pad"][0]) == one.truth["total"]
        for ok, one, r in zip(done, runs, reports, strict=True)
    ]
    experts = [
        ok and np.array_equal(r["buffers"]["expert_ids"][: len(one.truth["experts"])], one.truth["experts"])
        for ok, one, r in zip(count, runs, reports, strict=True)
    ]
    ids = [ok and sorted_right(one, r) for ok, one, r in zip(count, runs, reports, strict=True)]
    right = all(count) and all(experts) and all(ids)
    reads = max(_reads(one, report) for one, report in zip(runs, reports, strict=True))
    parallel = right and total(reports[0], "warp_instructions") <= MOST_INSTRUCTIONS
    earned: dict[str, bool | float] = {
        "count": sum(count) / len(runs),
        "experts": sum(experts) / len(runs),
        "sorted": sum(ids) / len(runs),
        "clean": right and clean(reports),
        "reads": right and reads <= MOST_READS,
        "parallel": parallel,
    }
    idea = "" if all(share == 1 for share in earned.values()) else _idea(runs, reports, right, reads)
    texts = {
        "reads": f"It reads topk_ids {reads:.1f} times.",
        "parallel": f"{total(reports[0], 'warp_instructions'):,.0f} warp-instructions; at most {MOST_INSTRUCTIONS:,}.",
    }
    return marks(exercise, earned, reports, idea, texts)


def _reads(one: Run, report: Report) -> float:
    read = sum(launch.get("read", {}).get("topk_ids", 0) for launch in report["launches"])
    return float(read / one.buffers["topk_ids"].nbytes)


def _idea(runs: Sequence[Run], reports: Sequence[Report], right: bool, reads: float) -> str:
    ended = [(one, report["buffers"]) for one, report in zip(runs, reports, strict=True) if not failure(report)]
    if right:
        return symptom(reports) or ("reads_often" if reads > MOST_READS else "serial")
    if len(ended) < len(runs):
        return symptom(reports)
    if all((b["num_post_pad"] == UNTOUCHED).all() and (b["sorted_ids"] == UNTOUCHED).all() for _, b in ended):
        return ""
    for name, matches in _OUTPUTS:
        if all(matches(one.truth, buffers) for one, buffers in ended):
            return name
    return symptom(reports)


def _num(buffers: Any) -> int:
    return int(buffers["num_post_pad"][0])


def _padding(truth: Any, buffers: Any) -> set[int]:
    ids = buffers["sorted_ids"][: truth["total"]]
    return set(ids.tolist()) - set(range(len(truth["topk"])))


_OUTPUTS = (
    ("not_padded", lambda t, b: _num(b) == len(t["topk"])),
    (
        "a_block_each",
        lambda t, b: (
            (
                _num(b) == sum(max(1, -(-len(c) // t["block"])) for c in t["choices"]) * t["block"]
                and _num(b) != t["total"]
            )
            or all(map(len, t["choices"]))
        ),
    ),
    ("one_more_block", lambda t, b: _num(b) == sum(len(c) // t["block"] + 1 for c in t["choices"]) * t["block"]),
    ("rounded_down", lambda t, b: _num(b) == sum(len(c) // t["block"] for c in t["choices"]) * t["block"]),
    ("blocks", lambda t, b: _num(b) * t["block"] == t["total"]),
    (
        "first_threads",
        lambda t, b: (
            _num(b) == aligned(t["topk"][:THREADS], t["block"], len(t["choices"]))["total"]
            and (len(t["topk"]) <= THREADS or not (b["sorted_ids"] == len(t["topk"]) - 1).any())
        ),
    ),
    (
        "padding",
        lambda t, b: _num(b) == t["total"] and len(t["topk"]) not in _padding(t, b) and len(_padding(t, b)) == 1,
    ),
    (
        "values",
        lambda t, b: (
            _num(b) == t["total"]
            and set(b["sorted_ids"][: t["total"]].tolist()) <= {*t["topk"].tolist(), len(t["topk"])}
        ),
    ),
    (
        "experts_by_slot",
        lambda t, b: _num(b) == t["total"] and not np.array_equal(b["expert_ids"][: len(t["experts"])], t["experts"]),
    ),
)

EXERCISE = CudaExercise(
    id="kernel",
    title="moe_align, a kernel of one CTA",
    file="moe_align.cu",
    arch="sm_90a",
    runs=runs,
    judged=judged,
    criteria=(
        Criterion("count", 10, "num_post_pad"),
        Criterion("experts", 20, "expert_ids, a block's expert"),
        Criterion("sorted", 30, "sorted_ids: every choice once, in its expert's blocks, the rest padding"),
        Criterion("clean", 15, "no race, nothing touched out of bounds (sanitizers)"),
        Criterion("reads", 10, "topk_ids is read at most twice"),
        Criterion("parallel", 15, f"all {THREADS} threads work: at most {MOST_INSTRUCTIONS:,} warp-instructions"),
    ),
    ideas=(
        Idea(
            "not_padded",
            "num_post_pad is the total after padding: each expert's choices are rounded up to whole blocks.",
        ),
        Idea("a_block_each", "An expert that no token chose has no block."),
        Idea(
            "one_more_block", "Choices that fill their blocks exactly need no further block: round up, not down plus 1."
        ),
        Idea("rounded_down", "A block that is not full is a block, too: round up."),
        Idea("blocks", "num_post_pad counts slots, not blocks."),
        Idea("first_threads", "Only the first 128 choices are seen: each thread must go on, in steps of blockDim.x."),
        Idea("padding", "Padding is the number of choices, which no choice has: the MoE kernel masks it."),
        Idea("values", "sorted_ids holds the choices' numbers, not the experts that were chosen."),
        Idea("experts_by_slot", "expert_ids has one entry per block of block_size slots, in the experts' order."),
        Idea("reads_often", "Every thread walks through all choices: count with atomics instead, each choice once."),
        Idea("serial", "One thread does what 128 could do."),
        *symptom_ideas(),
    ),
    hints=(
        Hint("Count in shared memory with atomicAdd, a barrier, then a running total of the rounded-up counts.", 3),
        Hint("atomicAdd(&next[expert], 1) hands each choice its slot; next[] begins with the experts' starts.", 6),
    ),
)


def _padded(random: Random) -> tuple[str, Question]:
    block, counts = random.choice([16, 64]), [random.randrange(1, 150) for _ in range(4)]
    return (
        f"Four experts got {counts} tokens, in blocks of {block}. What share of the computed rows is padding, 0 to 1?",
        Question(
            lambda: sum(-n % block for n in counts) / sum(-(-n // block) * block for n in counts),
            "{truth:.3f}.",
            "Round each up.",
        ),
    )


LAB = Lab(
    id="08",
    name="moe_align",
    title="An MoE align kernel",
    goal="Sort tokens' choices by expert, padded to blocks, in one kernel with shared-memory atomics and a prefix sum.",
    minutes=60,
    exercises=(EXERCISE, AnswerExercise.of("08", Asked("padding_share", 5, _padded))),
    needs=("nvcc",),
    reading=("notebooks/19_experts_and_quantisation.ipynb", "docs/debug-your-kernel.md"),
)
