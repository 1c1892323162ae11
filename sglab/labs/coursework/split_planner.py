"""Lab 04: a split planner that beats FlashInfer's makespan."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, ScriptExercise, Step
from sglab.labs.lab import Criterion, Exercise, Hint, Idea, Lab, Mark
from sglab.labs.question import Question
from sglab.labs.sandbox import Limits
from sglab.planning.flashinfer_mla import mla_plan

UNIT_COST, MERGE_COST = 128, 32
"""In tokens: what a work unit costs beside its tokens, and what a request's merge costs per partial."""
PAGE = 64
BATCHES = 12

Units = Sequence[tuple[int, int, int, int]]


def makespan(lens: Sequence[int], ctas: int, units: Units) -> float:
    """When the last CTA is done, and then the longest merge, in tokens' time."""
    busy, parts = [0] * ctas, [0] * len(lens)
    for request, start, end, cta in units:
        busy[cta] += UNIT_COST + end - start
        parts[request] += 1
    return max(busy) + MERGE_COST * max((count for count in parts if count > 1), default=0)


def flashinfer(lens: Sequence[int], ctas: int) -> Units:
    """FlashInfer's MLA plan for one query tile per request, in this lab's terms."""
    count = len(lens)
    plan = mla_plan(
        np.arange(count + 1),
        np.concatenate([[0], np.cumsum(-(-np.array(lens) // PAGE))]),
        lens,
        num_heads=16,
        sm_count=ctas,
    )
    cta = np.repeat(np.arange(len(plan.work_indptr) - 1), np.diff(plan.work_indptr))
    rows = zip(plan.batch_indices, plan.kv_start, plan.kv_end, cta, strict=False)
    return [(int(r), int(start), int(end), int(where)) for r, start, end, where in rows]


def complaint(lens: Sequence[int], ctas: int, units: Any) -> tuple[str, str]:
    """What is wrong with a plan: the known idea, and a text; both empty where it is valid."""
    if not isinstance(units, list) or not all(isinstance(unit, list) and len(unit) == 4 for unit in units):
        return "", "expected a list of [request, start, end, cta]"
    if not all(isinstance(value, int) and not isinstance(value, bool) for unit in units for value in unit):
        return "floats", "request, start, end and cta are integers."
    for request, start, end, cta in units:
        if not 0 <= request < len(lens):
            return "", f"there is no request {request}"
        if not 0 <= cta < ctas:
            return "cta_range", f"there is no CTA {cta}: they are 0 to {ctas - 1}."
        if start >= end:
            return "empty_unit", f"the unit [{start}, {end}) of request {request} has no tokens."
        if start % PAGE:
            return "unaligned", f"the unit of request {request} begins at {start}, within a page of {PAGE}."
        if end > lens[request]:
            return "past_end", f"request {request} ends at {lens[request]}, the unit at {end}."
    for request, length in enumerate(lens):
        parts = sorted((start, end) for r, start, end, _ in units if r == request)
        reached = 0
        for start, end in parts:
            if start < reached:
                return "overlap", f"tokens {start} to {min(reached, end)} of request {request} are in two units."
            if start > reached:
                return "gap", f"tokens {reached} to {start} of request {request} are in no unit."
            reached = end
        if reached < length and parts:
            return "tail", f"tokens {reached} to {length} of request {request} are in no unit."
        if not parts:
            return "gap", f"request {request} has no unit."
    return "", ""


def batch(random: np.random.Generator, kind: int) -> tuple[list[int], int]:
    ctas = int(random.choice([16, 32, 64]))
    if kind % 3 == 0:  # one long among short
        lens = [int(n) for n in random.integers(64, 1500, int(random.integers(3, ctas)))]
        lens[int(random.integers(len(lens)))] = int(random.integers(20_000, 60_000))
    elif kind % 3 == 1:  # few
        lens = [int(n) for n in random.integers(1000, 30_000, int(random.integers(1, 6)))]
    else:
        lens = [int(n) for n in np.exp(random.normal(7.5, 1.0, int(random.integers(8, 2 * ctas)))).astype(int) + 1]
    return lens, ctas


def script(random: np.random.Generator) -> tuple[list[Step], Any]:
    batches = [batch(random, kind) for kind in range(BATCHES)]
    return [Step("call", "plan", [lens, ctas]) for lens, ctas in batches], batches


def judged(exercise: Exercise, batches: Any, answers: list[dict[str, Any]]) -> list[Mark]:
    ideas, texts, valid, beaten, close = [], [], 0, 0, 0
    worst = ""
    for (lens, ctas), answer in zip(batches, answers, strict=True):
        idea, text = ("", str(answer["error"])) if "error" in answer else complaint(lens, ctas, answer.get("value"))
        if text:
            ideas.append(idea)
            texts.append(f"{len(lens)} requests on {ctas} CTAs: {text}")
            continue
        valid += 1
        units = [(r, start, end, cta) for r, start, end, cta in answer["value"]]
        mine, theirs = makespan(lens, ctas, units), makespan(lens, ctas, flashinfer(lens, ctas))
        searched = bound_of(tuple(lens), ctas)
        no_room = theirs <= searched  # a search over chunk lengths finds nothing better
        faster = mine < theirs or (no_room and mine <= searched)
        beaten += faster
        close += mine <= 1.08 * searched
        if not faster and not worst:
            size = f"{len(lens)} requests, the longest of {max(lens)} tokens, on {ctas} CTAs"
            worst = f"{size}: {mine:.0f} against {theirs:.0f}."
    count = len(batches)
    first = next((idea for idea in ideas if idea), "")
    said = f"{exercise.feedback_of(first)} {texts[ideas.index(first)]}" if first else (texts or [""])[0]
    slow = _slow_idea(batches, answers) if valid == count and beaten < count else ""
    slow_text = f"{exercise.feedback_of(slow)} " if slow else ""
    return [
        Mark("valid", valid / count, said if valid < count else "", first),
        Mark(
            "beats",
            beaten / count,
            f"{slow_text}Faster in {beaten} of {count}. {worst}" if beaten < count else "",
            slow,
        ),
        Mark("close", close / count, f"Within 8 % of the target in {close} of {count}." if close < count else ""),
    ]


@lru_cache(256)
def bound_of(lens: tuple[int, ...], ctas: int) -> float:
    """What a good plan reaches: the best of a search over chunk lengths, longest unit first."""
    return min(makespan(lens, ctas, chunked(lens, ctas, chunk)) for chunk in chunks(lens, ctas))


def chunks(lens: Sequence[int], ctas: int) -> list[int]:
    total, longest = sum(lens), max(lens)
    found = {-(-longest // PAGE) * PAGE}
    for parts in range(max(1, ctas // 2), 3 * ctas + 1, max(1, ctas // 16)):
        found.add(max(PAGE, -(-total // parts // PAGE) * PAGE))
    return sorted(found)


def chunked(lens: Sequence[int], ctas: int, chunk: int) -> Units:
    """Equal parts of at most `chunk` tokens, longest first, each to the CTA with the least so far."""
    import heapq

    parts = []
    for request, length in enumerate(lens):
        count = -(-length // chunk)
        step = -(-length // count // PAGE) * PAGE
        parts += [(min(step, length - start), request, start) for start in range(0, length, step)]
    busy = [(0, cta) for cta in range(ctas)]
    units = []
    for tokens, request, start in sorted(parts, reverse=True):
        load, cta = heapq.heappop(busy)
        units.append((request, start, start + tokens, cta))
        heapq.heappush(busy, (load + UNIT_COST + tokens, cta))
    return units


def _slow_idea(batches: Any, answers: list[dict[str, Any]]) -> str:
    """How the plans look that are not fast enough."""
    plans = [(lens, ctas, answer["value"]) for (lens, ctas), answer in zip(batches, answers, strict=True)]
    if all(len(units) == len(lens) for lens, _, units in plans):
        return "whole_requests"
    if all(len(units) == sum(-(-n // PAGE) for n in lens) for lens, _, units in plans):
        return "page_units"
    if all(len({cta for *_, cta in units}) == 1 for _, _, units in plans):
        return "one_cta"
    if all(_same_count(lens, units) for lens, _, units in plans):
        return "same_splits"
    if all([cta for *_, cta in units] == [i % ctas for i in range(len(units))] for _, ctas, units in plans):
        return "in_turn"
    return ""


def _same_count(lens: Sequence[int], units: Units) -> bool:
    """Whether short requests are cut into about as many parts as long ones."""
    counts = [sum(1 for unit in units if unit[0] == request) for request in range(len(lens))]
    most = max(counts)
    return most > 1 and all(2 * count >= min(most, -(-n // PAGE)) for count, n in zip(counts, lens, strict=True))


PLANNER = ScriptExercise(
    id="plan",
    title="A plan for random batches",
    file="split_planner.py",
    criteria=(
        Criterion("valid", 20, "every token in exactly one work unit, units on whole pages"),
        Criterion(
            "beats", 40, "faster than FlashInfer's plan; where a search over chunk lengths is not, as fast as that"
        ),
        Criterion("close", 20, "within 8 % of a search over chunk lengths"),
    ),
    script=script,
    judged=judged,
    limits=Limits(seconds=20, cpu_seconds=20),
    ideas=(
        Idea("floats", "Token numbers are integers: use // instead of /."),
        Idea("cta_range", "CTAs are numbered from 0 to num_ctas - 1."),
        Idea(
            "empty_unit", "A unit without tokens costs a launch and gives a partial with an LSE of -inf: leave it out."
        ),
        Idea("unaligned", "A page is loaded whole: units begin at multiples of 64 tokens."),
        Idea("past_end", "The last unit of a request ends where the request does, not at the end of its page."),
        Idea("overlap", "A token in two units counts twice in the softmax."),
        Idea("gap", "Tokens in no unit are missing in the softmax."),
        Idea("tail", "The end of a request is missing: round the number of parts up, not down."),
        Idea(
            "whole_requests",
            "One unit per request: the longest request decides, and the other CTAs wait for it. Split it.",
        ),
        Idea("page_units", "One unit per page: each costs 128 tokens' time beside its 64 tokens. Take larger parts."),
        Idea("one_cta", "All units are on one CTA."),
        Idea(
            "same_splits", "Every request in equally many parts: short ones are cut for nothing, long ones not enough."
        ),
        Idea("in_turn", "CTAs in turn, whatever they have already: give the next unit to the one with the least."),
    ),
    hints=(
        Hint("Cut long requests into parts of about total / num_ctas tokens, and leave short ones whole.", 3),
        Hint("Longest first: sort the parts by length, give each to the CTA with the least so far (a heap).", 5),
        Hint("Try several part lengths, compute each plan's makespan, and keep the best.", 8),
    ),
)


def _ideal(random: Random) -> tuple[str, Question]:
    ctas, lens = random.choice([16, 32]), [random.randrange(1000, 9000) for _ in range(3)]
    return (
        f"Requests of {lens} tokens, {ctas} CTAs, one unit per request. What share of the CTAs' time is idle, between\n"
        "0 and 1, if only tokens count?",
        Question(
            lambda: 1 - sum(lens) / (ctas * max(lens)), "{truth:.3f}.", "The longest takes max(lens); all others wait."
        ),
    )


def _idle_ctas(random: Random) -> float:
    return 1 - 3 / random.choice([16, 32])


LAB = Lab(
    id="04",
    name="split_planner",
    title="A split planner",
    goal="Cut a batch's KV into work units and deal them out to CTAs, so that the "
    "last is done sooner than with FlashInfer.",
    minutes=75,
    exercises=(
        PLANNER,
        AnswerExercise.of(
            "04",
            Asked(
                "idle",
                5,
                _ideal,
                (("count", "CTAs without work are idle, and so are those that are done early.", _idle_ctas),),
            ),
        ),
    ),
    reading=("notebooks/04_split_kv.ipynb",),
)
