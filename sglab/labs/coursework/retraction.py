"""Lab 06: what the scheduler does when a decode step does not fit: retraction."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, CaseGroup, FunctionExercise
from sglab.labs.lab import Criterion, Hint, Idea, Lab
from sglab.labs.question import Question

Requests = list[list[int]]
Key = Callable[[list[int], int], Any]


def held(request: list[int], page: int) -> int:
    """Pages of a request."""
    return -(-(request[0] + request[1]) // page)


def needed(requests: Requests, page: int) -> int:
    """Pages that one more token of each takes."""
    return sum((request[0] + request[1]) % page == 0 for request in requests)


def victim_key(request: list[int], index: int) -> Any:
    """Least is retracted first: fewest outputs, then the longest prompt, then the latest in the batch."""
    return request[1], -request[0], -index


def retract(
    requests: Requests,
    free: int,
    page: int,
    key: Key = victim_key,
    need: Callable[[Requests, int], int] = needed,
    back: Callable[[list[int], int], int] = held,
    least: int = 1,
    always: bool = False,
    stop: int | None = None,
    exact: bool = True,
) -> list[Any]:
    """[retracted in order, kept ascending, free pages]. What is given differently is a wrong idea."""
    kept, gone = list(range(len(requests))), []
    if always and len(kept) > least:
        gone.append(kept.pop(kept.index(min(kept, key=lambda i: key(requests[i], i)))))
        free += back(requests[gone[-1]], page)
    fixed = need(requests, page)
    while len(kept) > least and (stop is None or len(gone) < stop):
        wanted = need([requests[i] for i in kept], page) if exact else fixed
        if wanted <= free:
            break
        index = min(kept, key=lambda i: key(requests[i], i))
        kept.remove(index)
        gone.append(index)
        free += back(requests[index], page)
    return [gone, kept, free]


def ratio(requests: Requests) -> float:
    decoded, most = sum(r[1] for r in requests), sum(r[2] for r in requests)
    return min(1.0, (decoded + 20 * len(requests)) / (most + 1))


def batch(random: np.random.Generator, ties: bool = False) -> list[Any]:
    page, count = int(random.choice([4, 8, 16])), int(random.integers(3, 8))
    requests = []
    for _ in range(count):
        outputs = int(random.integers(2, 5)) if ties else int(random.integers(1, 60))
        prompt = int(random.integers(1, 9)) * page - outputs % page
        prompt += 0 if random.random() < 0.7 else 1
        requests.append([max(1, prompt), outputs, outputs + int(random.integers(1, 200))])
    if ties:
        requests[int(random.integers(1, count))] = list(requests[0])
    return [requests, int(random.integers(0, 3)), page]


def all_need_one(random: np.random.Generator) -> list[Any]:
    """Requests of a full page each: one that goes frees room for one, and needs none itself."""
    page, count = int(random.choice([8, 16])), int(random.integers(5, 8))
    outputs = [1 + int(each) for each in random.permutation(count)]
    return [[[page - each, each, each + int(random.integers(1, 200))] for each in outputs], 0, page]


def twins(random: np.random.Generator) -> list[Any]:
    """Of two equal requests, the first to go, the later one goes first."""
    requests, free, page = all_need_one(random)
    youngest = next(each for each in requests if each[1] == 1)
    requests.insert(int(random.integers(len(requests) + 1)), list(youngest))
    return [requests, free, page]


def plenty(random: np.random.Generator) -> list[Any]:
    requests, _, page = batch(random)
    return [requests, needed(requests, page) + int(random.integers(0, 2)), page]


def last_one(random: np.random.Generator) -> list[Any]:
    page = int(random.choice([4, 8]))
    return [[[int(random.integers(1, 5)) * page - 1, 1, 50]], 0, page]


RETRACT_WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "most_outputs": (
        partial(retract, key=lambda r, i: (-r[1], -r[0], -i)),
        "You retract who has generated most: that throws most work away. Fewest outputs first.",
    ),
    "shortest_prompt": (
        partial(retract, key=lambda r, i: (r[1], r[0], -i)),
        "Of requests with equally many outputs the one with the longest prompt goes: it frees most.",
    ),
    "by_prompt": (
        partial(retract, key=lambda r, i: (-r[0], r[1], -i)),
        "Outputs come first in the order, the prompt's length only where they are equal.",
    ),
    "newest": (
        partial(retract, key=lambda r, i: -i),
        "Not the latest in the batch goes, but who has generated least.",
    ),
    "first_of_equals": (
        partial(retract, key=lambda r, i: (r[1], -r[0], i)),
        "Of equals the later in the batch goes.",
    ),
    "a_page_each": (
        partial(retract, need=lambda requests, page: len(requests)),
        "Not every request needs a new page: only those whose last page is full.",
    ),
    "a_token_each": (
        partial(retract, need=lambda requests, page: -(-len(requests) // page)),
        "Requests do not share a page for their new tokens: each takes one of its own.",
    ),
    "frees_nothing": (
        partial(retract, back=lambda r, page: 0),
        "A retracted request gives back all its pages: count them as free before you look again.",
    ),
    "frees_the_output": (
        partial(retract, back=lambda r, page: -(-r[1] // page)),
        "The prompt's pages are freed, too: the request is prefilled again later.",
    ),
    "old_need": (
        partial(retract, exact=False),
        "Whoever is retracted needs no page any more: count again after each.",
    ),
    "all_of_them": (partial(retract, least=0), "One request always stays, else nothing would ever finish."),
    "only_one": (partial(retract, stop=1), "One may not be enough: go on until the rest fits."),
    "always_one": (partial(retract, always=True), "Nothing is retracted while the step fits."),
}
RATIO_WRONG: dict[str, tuple[Callable[..., Any], str]] = {
    "no_steps": (
        lambda r: min(1.0, sum(x[1] for x in r) / (sum(x[2] for x in r) + 1)),
        "Each request is expected to decode 20 steps more at least: add 20 per request.",
    ),
    "twenty_once": (
        lambda r: min(1.0, (sum(x[1] for x in r) + 20) / (sum(x[2] for x in r) + 1)),
        "20 steps for each request, not 20 in all.",
    ),
    "above_one": (
        lambda r: (sum(x[1] for x in r) + 20 * len(r)) / (sum(x[2] for x in r) + 1),
        "The ratio is at most 1: no request generates more than its max_new_tokens.",
    ),
    "mean": (
        lambda r: min(1.0, float(np.mean([(x[1] + 20) / (x[2] + 1) for x in r]))),
        "It is one ratio of sums, not the mean of the requests' ratios.",
    ),
    "remaining": (
        lambda r: min(1.0, (sum(x[1] for x in r) + 20 * len(r)) / (sum(x[2] - x[1] for x in r) + 1)),
        "Below the line is all of max_new_tokens, not what is left of it.",
    ),
    "no_plus_one": (
        lambda r: min(1.0, (sum(x[1] for x in r) + 20 * len(r)) / sum(x[2] for x in r)),
        "SGLang adds 1 below the line, so that it is never 0.",
    ),
}

RETRACT = FunctionExercise(
    id="retract",
    title="Who gives its memory up",
    file="retraction.py",
    function="retract",
    truth=retract,
    criteria=(
        Criterion("fits", 10, "no request, where the step fits"),
        Criterion("order", 25, "the right ones in the right order, and the free pages after it"),
        Criterion("ties", 10, "requests with equally many outputs"),
        Criterion("last", 5, "the last one stays"),
    ),
    groups=(
        CaseGroup("fits", plenty, 5),
        CaseGroup("order", batch, 12),
        CaseGroup("order", all_need_one, 2),
        CaseGroup("ties", lambda r: batch(r, ties=True), 8),
        CaseGroup("ties", twins, 2),
        CaseGroup("last", last_one, 3),
    ),
    ideas=tuple(Idea(name, text) for name, (_, text) in RETRACT_WRONG.items()),
    wrong={name: function for name, (function, _) in RETRACT_WRONG.items()},
    hints=(
        Hint("A request needs a page for its next token exactly when its tokens fill their pages.", 2),
        Hint("victim = min(kept, key=lambda i: (outputs, -prompt, -i)); then count needs and free pages again.", 5),
    ),
)
RATIO = FunctionExercise(
    id="ratio",
    title="The new token ratio after it",
    file="retraction.py",
    function="new_token_ratio",
    truth=ratio,
    criteria=(Criterion("ratio", 10, "of random batches, and at most 1"),),
    groups=(CaseGroup("ratio", lambda r: [batch(r)[0]], 8), CaseGroup("ratio", lambda r: [[[5, 90, 91]]], 1)),
    ideas=tuple(Idea(name, text) for name, (_, text) in RATIO_WRONG.items()),
    wrong={name: function for name, (function, _) in RATIO_WRONG.items()},
    hints=(Hint("(decoded + 20 · requests) / (sum of max_new_tokens + 1), at most 1.", 3),),
)


def _reserved(random: Random) -> tuple[str, Question]:
    left, share = random.randrange(500, 3000), random.choice([0.7, 0.5, 0.3])
    return (
        f"Running requests may generate {left} more tokens, and the new token ratio is {share}.\n"
        "How many tokens does the scheduler reserve for them?",
        Question(lambda: left * share, "{truth}.", "The ratio is the share that is reserved."),
    )


LAB = Lab(
    id="06",
    name="retraction",
    title="The scheduler's retraction",
    goal="Decide which requests give their KV cache up when a decode step does not "
    "fit, and how much to reserve after it.",
    minutes=40,
    exercises=(
        RETRACT,
        RATIO,
        AnswerExercise.of(
            "06",
            Asked(
                "reserved",
                5,
                _reserved,
                (("all", "Not all of it: most requests stop before their limit.", lambda r: r.randrange(500, 3000)),),
            ),
        ),
    ),
    reading=("notebooks/06_serving_loop.ipynb", "docs/engine.md"),
)
