"""Questions of notebook 06: batches, chunks, the radix tree and retraction, on an engine that the reader drives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch

from sglab.engine import (
    PagedTokenToKVPoolAllocator,
    RadixCache,
    RadixKey,
    ReqToTokenPool,
    TokenToKVPoolAllocator,
)

from .question import Question

if TYPE_CHECKING:
    from sglab.engine.scheduler import History
    from sglab.serving import Engine
    from sglab.workbench.batch import Batch

MARKS = {"prefill": "P", "chunk": "c", "decode": "d", "verify": "v"}
Case = tuple[list[list[int]], list[int], int]


def timeline(history: History, first: int = 0, last: int | None = None) -> str:
    """One line per request, one letter per step from `first` to before `last`.

    P: the end of its prefill, c: a chunk of it, d: decode, R: retracted, .: waiting.
    """
    steps = history.steps[first:last]
    width = max((len(rid) for rid in history.arrivals), default=0)
    lines = []
    for rid in history.arrivals:
        letters = []
        for step in steps:
            phase = next((MARKS[entry.phase] for entry in step.batch if entry.rid == rid), "")
            waits = "." if rid in step.waiting else " "
            letters.append("R" if rid in step.retracted else phase or waits)
        lines.append(f"{rid:{width}}  {''.join(letters)}")
    return "\n".join(lines)


def shared_prefix(handles: Sequence[Any], page_size: int) -> Question:
    """The tokens of the last request's prompt that a tree of pages of `page_size` has from the others' prompts."""
    *served, prompt = [list(handle.output().prompt_token_ids) for handle in handles]
    common, found = _common(served, prompt), handles[-1].output().cached_tokens
    ideas = {
        found: "So many came from a tree with smaller pages. Round what is shared down to whole pages of the new size.",
        common: f"So many tokens are shared. The tree keeps whole pages of {page_size}.",
        -(-common // page_size) * page_size: "The last of these pages is shared only in part.",
        common // page_size: "Those are pages. How many tokens are in them?",
        len(prompt) - common // page_size * page_size: "So many have to be computed. The others come from the tree.",
    }
    return Question(
        truth=lambda: _matched(served, prompt, page_size),
        because=f"{{truth}}: as many of the {common} shared tokens as fill whole pages of {page_size}.",
        hint=f"{common} tokens are shared. How many whole pages of {page_size} do they fill?",
        ideas=tuple(ideas.items()),
    )


def tokens_of_step(engine: Engine, step: int) -> Question:
    """The tokens that one pass computed."""
    return Question(
        truth=lambda: sum(entry.new_tokens for entry in engine.history.steps[step].batch),
        because="{truth}: the budget of a prefill pass is counted in tokens, not in requests.",
        hint="Add up new_tokens over the batch of engine.history.steps[...].",
        ideas=(
            (len(engine.history.steps[step].batch), "So many requests. Each of them has several tokens in this pass."),
            (
                max(entry.new_tokens for entry in engine.history.steps[step].batch),
                "That is one of them. The pass computes them together.",
            ),
        ),
    )


def retracted(engine: Engine) -> Question:
    """Who was retracted first."""

    def truth() -> str:
        return next(step.retracted[0] for step in engine.history.steps if step.retracted)

    found = next((step for step in engine.history.steps if step.retracted), None)
    ran = {entry.rid for entry in found.batch} if found else set()
    return Question(
        truth=truth,
        because="{truth}: of those that ran it had generated the fewest tokens, so the least work is done twice.",
        hint="steps[i].retracted lists names; find the first step in which it is not empty.",
        ideas=tuple(
            (
                rid,
                "It ran then, but had generated more: who has the fewest tokens goes, so that the least is done twice."
                if rid in ran
                else "It had no memory to give back: it was waiting.",
            )
            for rid in engine.history.arrivals
            if found and rid not in found.retracted
        ),
    )


def computed_twice(engine: Engine) -> Question:
    """Tokens that prefills computed beyond one computation of each token of each request's prompt and output."""

    def truth() -> int:
        ahead: dict[str, int] = {}
        twice = 0
        for step in engine.history.steps:
            for entry in step.batch:
                known = ahead.get(entry.rid, 0)
                twice += max(min(known, entry.start + entry.new_tokens) - entry.start, 0)
                ahead[entry.rid] = max(known, entry.start + entry.new_tokens)
        return twice

    return Question(
        truth=truth,
        because="{truth}: what the tree still had of them when they came back did not have to be computed again.",
        hint="For each request keep the furthest position that was computed; a later batch entry that starts below it "
        "computes up to there again.",
        ideas=(
            (
                sum(len(step.retracted) for step in engine.history.steps),
                "So often a request was retracted. How many tokens did it cost?",
            ),
            (
                _read_again(engine, "length"),
                "That is all that they read when they came back. The tree still had a part of it.",
            ),
            (
                _read_again(engine, "new"),
                "Close. The last token of each had been generated, but its keys were not computed before: one "
                "too many for each return.",
            ),
        ),
    )


def _read_again(engine: Engine, what: Literal["length", "new"]) -> int:
    """Of all requests that came back: the tokens that they then read, or of these the ones that were computed."""
    seen: set[str] = set()
    total = 0
    for step in engine.history.steps:
        for entry in step.batch:
            if entry.rid in seen and entry.phase != "decode":
                total += entry.new_tokens + (entry.start if what == "length" else 0)
            if entry.phase == "decode":
                seen.add(entry.rid)
    return total


def balance(engine: Engine, step: int) -> Question:
    """Slots of the pool that a step's running requests hold outside the tree."""
    pool = engine.history.steps[step].pool
    return Question(
        truth=lambda: pool.size - pool.free - pool.evictable - pool.protected,
        because="{truth} private slots: free + evictable + protected + private is the pool, after every step.",
        hint="pool.size is the sum of four numbers, of which you know three.",
        ideas=(
            (pool.size - pool.free, "That is all that is in use. The tree's slots are among it."),
            (pool.evictable + pool.protected, "Those are the tree's."),
            (pool.free, "Those are free."),
        ),
    )


def first_position(batch: Batch, request: int) -> Question:
    """The position of the first token that an extending request computes."""

    def truth() -> int:
        lens = batch.forward_batch.extend_prefix_lens
        assert lens is not None, "ask about a batch that extends"
        return int(lens[request])

    return Question(
        truth=truth,
        because="{truth}: that many tokens are cached already, and positions count from 0.",
        hint="Its cached tokens have the positions 0, 1, 2 … Which one comes next?",
        ideas=(
            (0, "The first tokens of this request are cached: they are not computed again."),
            *(
                (int(each) + 1, "Positions count from 0.")
                for each in (
                    batch.forward_batch.extend_prefix_lens if batch.forward_batch.extend_prefix_lens is not None else ()
                )[request : request + 1]
            ),
        ),
    )


def evictable_tokens(batch: Batch) -> Question:
    """Tokens in nodes of the radix tree that no running request locks now."""
    evictable = batch.tree_cache.evictable_size()
    return Question(
        truth=lambda: evictable,
        because="{truth}: whole pages of requests that left. What running requests use is locked.",
        hint="Which nodes have no lock? Add up their tokens.",
        ideas=(
            (batch.tree_cache.protected_size(), "Those are locked: a running request uses them."),
            (
                evictable + batch.tree_cache.protected_size(),
                "That is the whole tree. What running requests use is locked.",
            ),
        ),
    )


def prefix_cases(seed: int = 0, count: int = 8) -> list[Case]:
    """Cases of the exercise: (token lists that were served before, a new prompt, the page size)."""
    generator = torch.Generator().manual_seed(seed)

    def draw(most: int) -> int:
        return int(torch.randint(most, (1,), generator=generator))

    cases: list[Case] = []
    for _ in range(count):
        page = 1 << draw(4)
        base = [draw(3) for _ in range(40)]
        served = [base[: 8 + draw(24)] + [draw(3) for _ in range(draw(8))] for _ in range(1 + draw(3))]
        cases.append((served, base[: 4 + draw(32)] + [draw(3) for _ in range(draw(6))], page))
    return cases


def cached_prefixes(cases: Sequence[Case]) -> Question:
    """How many leading tokens of each prompt a radix tree has. The truth inserts and matches in the engine's tree."""

    def truth() -> list[int]:
        return [_matched(*case) for case in cases]

    return Question(
        truth=truth,
        because="{truth}: the longest common prefix with any of them, in whole pages.",
        hint="Compare the prompt with each list from the left; cut both to whole pages first. The longest counts.",
        ideas=(
            ([_common(served, prompt) for served, prompt, _ in cases], "The tree keeps whole pages: round down."),
            (
                [_common(served, prompt) // page for served, prompt, page in cases],
                "Those are pages. How many tokens are in them?",
            ),
            (
                [-(-_common(served, prompt) // page) * page for served, prompt, page in cases],
                "A page that is shared only in part cannot be shared: round down, not up.",
            ),
            (
                [sum(_common([each], prompt) // page * page for each in served) for served, prompt, page in cases],
                "A prompt takes one path through the tree: the longest match counts, not the sum of all.",
            ),
            (
                [_common(served[-1:], prompt) // page * page for served, prompt, page in cases],
                "That is the list served last. Any of them may match: the longest counts.",
            ),
            ([0] * len(cases), "Some of the prompts begin as something did that was served before."),
        ),
    )


def _common(served: list[list[int]], prompt: list[int]) -> int:
    """The longest beginning that the prompt has in common with any list, pages left aside."""
    return max(
        next((i for i, (a, b) in enumerate(zip(each, prompt, strict=False)) if a != b), min(len(each), len(prompt)))
        for each in served
    )


def _matched(served: list[list[int]], prompt: list[int], page: int) -> int:
    device = torch.device("cpu")
    pool = ReqToTokenPool(4, 128, device)
    allocator = TokenToKVPoolAllocator(1024, device) if page == 1 else PagedTokenToKVPoolAllocator(1024, page, device)
    tree = RadixCache(pool, allocator, page)
    for tokens in served:
        tree.insert(RadixKey(tokens), torch.arange(len(tokens)))
    return len(tree.match_prefix(RadixKey(prompt)).device_indices)
