"""Lab 03: the radix tree that lets requests share the KV cache of a common prefix."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, ObjectExercise, Story
from sglab.labs.lab import Criterion, Hint, Idea, Lab
from sglab.labs.question import Question

from .radix_tree_truth import WRONG, Tree

Calls = list[tuple[str, list[Any]]]


def _tokens(random: np.random.Generator, length: int) -> list[int]:
    return [int(token) for token in random.integers(0, 50, length)]


class _Writer:
    """Random stories: prompts that share prefixes, with slots of their own."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.slot = random, 100
        self.known: list[list[int]] = [_tokens(random, int(random.integers(6, 12)))]

    def prompt(self) -> list[int]:
        base = self.known[int(self.random.integers(len(self.known)))]
        cut = int(self.random.integers(1, len(base) + 1))
        return base[:cut] + _tokens(self.random, int(self.random.integers(0, 5)))

    def insert(self, tokens: list[int]) -> tuple[str, list[Any]]:
        self.known.append(tokens)
        self.slot += len(tokens)
        return "insert", [tokens, list(range(self.slot - len(tokens), self.slot))]


def sharing(random: np.random.Generator) -> tuple[list[Any], Calls]:
    writer = _Writer(random)
    calls: Calls = [("match", [[1, 2]]), writer.insert(writer.known[0])]
    for _ in range(8):
        prompt = writer.prompt()
        calls += [("match", [prompt]), writer.insert(prompt), ("match", [prompt]), ("size", [])]
    return [], calls


def evicting(random: np.random.Generator) -> tuple[list[Any], Calls]:
    writer = _Writer(random)
    calls: Calls = [writer.insert(writer.known[0])]
    for _ in range(6):
        calls += [writer.insert(writer.prompt()), ("match", [writer.prompt()])]
    for _ in range(5):
        calls += [("evict", [int(random.integers(1, 6))]), ("size", []), ("match", [writer.prompt()])]
    return [], [*calls, ("evict", [1000]), ("size", [])]


def locking(random: np.random.Generator) -> tuple[list[Any], Calls]:
    writer = _Writer(random)
    calls: Calls = [writer.insert(writer.known[0])]
    calls += [writer.insert(writer.prompt()) for _ in range(5)]
    held = [writer.known[int(random.integers(1, len(writer.known)))] for _ in range(2)]
    for tokens in held:
        calls.append(("lock", [tokens]))
    calls += [("lock", [held[0]]), writer.insert([*held[0][:2], 90, 91, 92]), ("evict", [1000]), ("size", [])]
    calls += [("match", [tokens]) for tokens in held]
    calls += [("unlock", [held[0]]), ("evict", [1000]), ("size", []), ("unlock", [held[0]]), ("evict", [1000])]
    calls += [("size", []), ("unlock", [held[1]]), ("evict", [1000]), ("size", [])]
    again: Calls = [("lock", [held[0][:2]]), ("evict", [1000]), ("size", [])]
    # The last node of a locked path is split: both halves are locked, and both are to be unlocked.
    own = [*writer.prompt(), 95, 96, 97]
    parted: Calls = [writer.insert(own), ("lock", [own]), writer.insert([*own[:-1], 93, 94]), ("evict", [1000])]
    parted += [("size", []), ("unlock", [own]), ("evict", [1000]), ("size", [])]
    return [], calls + 3 * again + parted


TREE = ObjectExercise(
    id="tree",
    title="RadixTree",
    file="radix_tree.py",
    name="RadixTree",
    truth=Tree,
    criteria=(
        Criterion("sharing", 40, "match and insert: the longest known prefix, nodes split where prompts part"),
        Criterion("evicting", 30, "evict: leaves, least recently used first, until enough is free"),
        Criterion("locking", 30, "lock and unlock: what running requests read stays"),
    ),
    stories=(Story("sharing", sharing, 4), Story("evicting", evicting, 6), Story("locking", locking, 6)),
    ideas=tuple(Idea(name, text) for name, (_, text) in WRONG.items()),
    wrong={name: kind for name, (kind, _) in WRONG.items()},
    hints=(
        Hint(
            "Write one helper that walks along the tokens and splits the last node; match, insert and lock all use it.",
            3,
        ),
        Hint(
            "Splitting makes a new upper node: it takes the first tokens and slots, the locks and the time of use.", 5
        ),
        Hint("After a leaf has gone its parent may be a leaf: look for the least recently used one again.", 5),
    ),
)


def _shared(random: Random) -> tuple[str, Question]:
    page, prefix = random.choice([16, 64]), random.randrange(200, 900)
    return (
        f"In a tree with pages of {page} tokens, a prompt shares its first {prefix} tokens with one that is known.\n"
        "How many of its tokens need not be computed again?",
        Question(lambda: prefix // page * page, "{truth}: whole pages.", "A page is shared whole or not at all."),
    )


def _every_token(random: Random) -> int:
    random.choice([16, 64])
    return random.randrange(200, 900)


LAB = Lab(
    id="03",
    name="radix_tree",
    title="The radix tree",
    goal="Write the tree by which requests find the KV cache that others with the "
    "same prefix have left, and evict from it.",
    minutes=90,
    exercises=(
        TREE,
        AnswerExercise.of(
            "03",
            Asked(
                "reused",
                5,
                _shared,
                (("tokens", "With pages, the part of a page at the end is computed again.", _every_token),),
            ),
        ),
    ),
    reading=("notebooks/06_serving_loop.ipynb", "docs/engine.md"),
)
