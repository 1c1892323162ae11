"""Lab 02: an allocator that hands out whole pages."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, ObjectExercise, Story
from sglab.labs.lab import Criterion, Hint, Idea, Lab
from sglab.labs.question import Question


class Allocator:
    """The truth: the lowest free page first, page 0 never."""

    first_page = 1

    def __init__(self, num_pages: int, page_size: int) -> None:
        self.page = page_size
        self.free_pages = list(range(self.first_page, num_pages + self.first_page))
        self.slots: dict[int, list[int]] = {}

    def extend(self, request: int, tokens: int) -> list[int] | None:
        mine = self.slots.get(request, [])
        room = self.room(mine)
        needed = self.pages_for(tokens - room)
        if self.short(needed):
            return self.refuse(needed)
        new = [mine[-1] + 1 + i for i in range(min(room, tokens))]
        for _ in range(needed):
            new += self.taken()
        new = new[:tokens]
        self.slots[request] = mine + new
        return new

    def free(self, request: int) -> None:
        slots = self.slots.pop(request, [])
        self.free_pages = sorted({*self.free_pages, *self.pages_of(slots)})

    def available(self) -> int:
        return len(self.free_pages) * self.page

    def room(self, mine: list[int]) -> int:
        return -len(mine) % self.page

    def pages_for(self, tokens: int) -> int:
        return max(0, -(-tokens // self.page))

    def short(self, needed: int) -> bool:
        return needed > len(self.free_pages)

    def refuse(self, needed: int) -> list[int] | None:
        return None

    def taken(self) -> list[int]:
        page = self.free_pages.pop(0)
        return [page * self.page + i for i in range(self.page)]

    def pages_of(self, slots: list[int]) -> list[int]:
        return [slot // self.page for slot in slots]


class _PageZero(Allocator):
    first_page = 0


class _NewPageEachTime(Allocator):
    def room(self, mine: list[int]) -> int:
        return 0


class _RoundsDown(Allocator):
    def pages_for(self, tokens: int) -> int:
        return max(0, tokens // self.page)


class _OnePageMore(Allocator):
    def pages_for(self, tokens: int) -> int:
        return tokens // self.page + 1 if tokens > 0 else 0


class _RefusesTheLast(Allocator):
    def short(self, needed: int) -> bool:
        return needed > 0 and needed >= len(self.free_pages)


class _KeepsWhatItTook(Allocator):
    def refuse(self, needed: int) -> list[int] | None:
        self.free_pages = []
        return None


class _Raises(Allocator):
    def refuse(self, needed: int) -> list[int] | None:
        raise RuntimeError("out of memory")


class _NeverFrees(Allocator):
    def pages_of(self, slots: list[int]) -> list[int]:
        return []


class _FreesPerToken(Allocator):
    def free(self, request: int) -> None:
        self.free_pages = sorted([*self.free_pages, *self.pages_of(self.slots.pop(request, []))])


class _KeepsTheLastPage(Allocator):
    def free(self, request: int) -> None:
        slots = self.slots.pop(request, [])
        whole = slots[: len(slots) - len(slots) % self.page]
        self.free_pages = sorted({*self.free_pages, *self.pages_of(whole)})


class _CountsPages(Allocator):
    def available(self) -> int:
        return len(self.free_pages)


class _CountsTails(Allocator):
    def available(self) -> int:
        return len(self.free_pages) * self.page + sum(-len(slots) % self.page for slots in self.slots.values())


class _Forgets(Allocator):
    def free(self, request: int) -> None:
        self.free_pages = sorted([*self.free_pages, *set(self.pages_of(self.slots.get(request, [])))])


class _LastInFirstOut(Allocator):
    def free(self, request: int) -> None:
        pages = sorted(set(self.pages_of(self.slots.pop(request, []))))
        self.free_pages = pages + self.free_pages


class _AtTheEnd(Allocator):
    def free(self, request: int) -> None:
        pages = sorted(set(self.pages_of(self.slots.pop(request, []))))
        self.free_pages = self.free_pages + pages


def fresh(random: np.random.Generator) -> tuple[list[Any], list[tuple[str, list[Any]]]]:
    page = int(random.choice([4, 8]))
    calls: list[tuple[str, list[Any]]] = [("available", [])]
    for request in range(4):
        calls += [("extend", [request, int(random.integers(1, 3 * page))]), ("available", [])]
    return [24, page], calls


def growing(random: np.random.Generator) -> tuple[list[Any], list[tuple[str, list[Any]]]]:
    page = int(random.choice([4, 8]))
    calls: list[tuple[str, list[Any]]] = [
        ("extend", [request, int(random.integers(1, 2 * page))]) for request in range(3)
    ]
    for _ in range(3 * page):
        calls.append(("extend", [int(random.integers(3)), int(random.choice([1, 1, 1, page]))]))
    return [40, page], [*calls, ("available", [])]


def full(random: np.random.Generator) -> tuple[list[Any], list[tuple[str, list[Any]]]]:
    page, pages = int(random.choice([4, 8])), 6
    first = int(random.integers(2, 4))
    return [pages, page], [
        ("extend", [0, first * page - 1]),
        ("extend", [1, (pages - first + 1) * page]),
        ("available", []),
        ("extend", [1, (pages - first) * page]),
        ("available", []),
        ("extend", [0, 1]),
        ("extend", [0, 1]),
        ("extend", [1, 1]),
        ("available", []),
    ]


def again(random: np.random.Generator) -> tuple[list[Any], list[tuple[str, list[Any]]]]:
    page = int(random.choice([4, 8]))
    calls: list[tuple[str, list[Any]]] = []
    for request in range(4):
        calls.append(("extend", [request, int(random.integers(page + 1, 3 * page))]))
    for request in random.permutation(4).tolist():
        calls += [("free", [request]), ("available", []), ("extend", [int(request), int(random.integers(1, 2 * page))])]
        calls += [("extend", [9, page + 1]), ("free", [9]), ("available", [])]
    return [20, page], calls


WRONG = {
    "page_zero": (_PageZero, "Page 0 is kept for padded rows of CUDA graphs: hand out pages 1 to num_pages."),
    "new_page": (_NewPageEachTime, "The last page of a request may have room: fill it before you take another page."),
    "rounds_down": (_RoundsDown, "Tokens that do not fill a page need one all the same: round pages up."),
    "one_more": (_OnePageMore, "You take a page more than needed where the tokens fill their pages exactly."),
    "refuses_last": (
        _RefusesTheLast,
        "The last free page may be used: refuse only where more pages are needed than free.",
    ),
    "keeps": (_KeepsWhatItTook, "A refused call must change nothing: you keep the pages that you had taken already."),
    "raises": (_Raises, "Where there are too few pages extend returns None: the scheduler then evicts or retracts."),
    "never_frees": (_NeverFrees, "Pages of a freed request never come back."),
    "per_token": (
        _FreesPerToken,
        "You give a page back once per token: it is then free several times, and two requests get it.",
    ),
    "keeps_last": (_KeepsTheLastPage, "A freed request's last page comes back, too, though it was not full."),
    "counts_pages": (_CountsPages, "available() is in tokens: free pages times page_size."),
    "counts_tails": (
        _CountsTails,
        "Room on a request's last page is that request's alone: it is not available to others.",
    ),
    "forgets": (
        _Forgets,
        "After free you still know the request's slots: the next one of this number "
        "continues on pages that are not its own.",
    ),
    "newest_first": (
        _LastInFirstOut,
        "The lowest free page comes first, wherever it came from: keep the free pages sorted.",
    ),
    "at_the_end": (
        _AtTheEnd,
        "The lowest free page comes first: freed pages may not simply go to the end of the list.",
    ),
}

ALLOCATOR = ObjectExercise(
    id="allocator",
    title="PagedAllocator",
    file="paged_allocator.py",
    name="PagedAllocator",
    truth=Allocator,
    criteria=(
        Criterion("fresh", 20, "new requests get whole pages, lowest first"),
        Criterion("growing", 20, "a request continues on its last page"),
        Criterion("full", 20, "a call that cannot be served returns None and changes nothing; the last page is used"),
        Criterion("again", 20, "freed pages are handed out again, once each"),
    ),
    stories=(Story("fresh", fresh), Story("growing", growing), Story("full", full), Story("again", again)),
    ideas=tuple(Idea(name, text) for name, (_, text) in WRONG.items()),
    wrong={name: kind for name, (kind, _) in WRONG.items()},
    hints=(
        Hint("Keep per request the list of its slots: its length says how much room its last page has.", 2),
        Hint("Count the new pages first: ceil((tokens - room) / page_size). Only then take anything.", 5),
        Hint("Keep the free pages in a heap (heapq): the lowest comes first, and giving back is cheap.", 5),
    ),
)


def _waste(random: Random) -> tuple[str, Question]:
    page, lens = random.choice([16, 64, 128]), [random.randrange(100, 3000) for _ in range(4)]
    return (
        f"Requests of {lens} tokens lie on pages of {page}. How many slots of their pages are empty?",
        Question(lambda: sum(-n % page for n in lens), "{truth}.", "Only the last page of each is not full."),
    )


def _average(random: Random) -> int:
    page = random.choice([16, 64, 128])
    return 4 * page // 2


LAB = Lab(
    id="02",
    name="paged_allocator",
    title="A paged allocator",
    goal="Write the allocator that gives a serving engine its KV slots: whole "
    "pages, nothing lost, nothing given twice.",
    minutes=60,
    exercises=(
        ALLOCATOR,
        AnswerExercise.of(
            "02",
            Asked(
                "empty_slots",
                5,
                _waste,
                (("average", "Half a page each is the average, not these lengths.", _average),),
            ),
        ),
    ),
    reading=("notebooks/02_page_tables.ipynb", "docs/engine.md"),
)
