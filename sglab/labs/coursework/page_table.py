"""Lab 01: from a request's tokens to slots, pages and the index arrays that kernels read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np

from sglab.labs.exercises import AnswerExercise, Asked, CaseGroup, FunctionExercise
from sglab.labs.lab import Criterion, Hint, Idea, Lab
from sglab.labs.question import Question

Array = Any
Rule = Callable[[int, int], int]


def ceil(tokens: int, page: int) -> int:
    return -(-tokens // page)


def make(random: np.random.Generator, lengths: Callable[[int], list[int]] | None = None) -> list[Any]:
    """Arguments: req_to_token (rows, columns), req_pool_indices, seq_lens, page_size; unused slots hold garbage."""
    page = int(random.choice([4, 8, 16]))
    lens = lengths(page) if lengths else [int(n) for n in random.integers(1, 7 * page, int(random.integers(2, 5)))]
    width = ceil(max([*lens, 1]), page) + 3
    free = random.permutation(len(lens) * width * 2) + 1
    rows = random.permutation(len(lens) + 4)[: len(lens)] + 1
    table = random.integers(0, free.max() * page, (len(lens) + 6, width * page), dtype=np.int32)
    for index, (row, length) in enumerate(zip(rows, lens, strict=True)):
        pages = free[index * width : (index + 1) * width]
        slots = (pages[:, None] * page + np.arange(page)).reshape(-1)
        table[row, :length] = slots[:length]
    return [table, rows.astype(np.int64), np.array(lens, np.int64), page]


def table(
    req_to_token: Array,
    rows: Array,
    lens: Array,
    page: int,
    count: Rule = ceil,
    row: Callable[[int, Array], int] = lambda i, rows: int(rows[i]),
    entry: Callable[[Array, int], Array] = lambda slots, page: slots[::page] // page,
    pad: int = -1,
    wide: Callable[[list[int]], list[int]] = lambda counts: counts,
) -> Array:
    """Page numbers of each request, (batch, most pages) int32, padded. What is given differently is a wrong idea."""
    counts = wide([count(int(n), page) for n in lens])
    out = np.full((len(lens), max(counts, default=0)), pad, np.int32)
    for i, pages in enumerate(counts):
        slots = req_to_token[row(i, rows)]
        found = entry(slots, page)[:pages]
        out[i, : len(found)] = found
    return out


def csr(
    req_to_token: Array,
    rows: Array,
    lens: Array,
    page: int,
    last: Rule = lambda n, page: (n - 1) % page + 1,
    count: Rule = ceil,
    indptr: Callable[[list[int]], list[int]] = lambda counts: [0, *np.cumsum(counts).tolist()],
    row: Callable[[int, Array], int] = lambda i, rows: int(rows[i]),
    entry: Callable[[Array, int], Array] = lambda slots, page: slots[::page] // page,
) -> list[Array]:
    """kv_indptr, kv_indices, last_page_len, as FlashInfer reads them."""
    counts = [count(int(n), page) for n in lens]
    pages = [entry(req_to_token[row(i, rows)], page)[:n] for i, n in enumerate(counts)]
    return [
        np.array(indptr(counts), np.int32),
        np.concatenate([*pages, np.zeros(0, np.int32)]).astype(np.int32),
        np.array([last(int(n), page) for n in lens], np.int32),
    ]


TABLE_IDEAS = (
    Idea("floor", "You round the number of pages down: a page that is not full is a page, too."),
    Idea(
        "extra_page", "A request whose tokens fill its pages exactly needs no further page: round up, not down plus 1."
    ),
    Idea("row_number", "Row i of the batch is not row i of req_to_token: req_pool_indices says which row is whose."),
    Idea("slots", "These are slots. A page's number is the slot divided by page_size."),
    Idea("every_token", "You write an entry per token. A page has one entry: look at its first token only."),
    Idea("offset", "slot % page_size is the place within the page; the page is slot // page_size."),
    Idea("pad_zero", "Page 0 exists: padding with 0 names a real page. Use -1."),
    Idea("counted", "Pages of a request need not be neighbours: read where they are, do not count them up."),
    Idea("sorted", "The order of the pages is the order of the tokens: do not sort them."),
    Idea("longest", "You give every request as many pages as the longest has: what is beyond its length is garbage."),
)
CSR_IDEAS = (
    Idea("last_zero", "A full last page holds page_size tokens, not 0: len % page_size is not enough."),
    Idea("last_length", "last_page_len counts the tokens on the last page alone, not all of the request's."),
    Idea("last_free", "That is how many rows of the last page are free; the kernel needs how many are used."),
    Idea("no_zero", "kv_indptr has batch + 1 entries and begins with 0: request i is indptr[i] to indptr[i + 1]."),
    Idea("counts", "kv_indptr is a running total, not each request's count."),
    Idea("tokens", "kv_indptr counts pages here, not tokens."),
    Idea("floor", "You round the number of pages down: a page that is not full is a page, too."),
    Idea("row_number", "Row i of the batch is not row i of req_to_token: req_pool_indices says which row is whose."),
    Idea("slots", "These are slots. A page's number is the slot divided by page_size."),
    Idea("last_index", "That is the last token's place on its page, from 0; the length is one more."),
)

PAGE_TABLE = FunctionExercise(
    id="table",
    title="The page table (block table)",
    file="page_table.py",
    function="page_table",
    truth=table,
    criteria=(
        Criterion("full", 10, "requests whose last page is full"),
        Criterion("partial", 20, "requests of any length"),
        Criterion("single", 10, "requests of one token, and one request alone"),
    ),
    groups=(
        CaseGroup("full", lambda r: make(r, lambda page: [page * int(n) for n in r.integers(1, 6, 3)])),
        CaseGroup("partial", make),
        CaseGroup("single", lambda r: make(r, lambda page: [1, 1, page + 1][: int(r.integers(1, 4))]), 4),
    ),
    ideas=TABLE_IDEAS,
    wrong={
        "floor": partial(table, count=lambda n, p: n // p),
        "extra_page": partial(table, count=lambda n, p: n // p + 1),
        "row_number": partial(table, row=lambda i, rows: i),
        "slots": partial(table, entry=lambda slots, p: slots[::p]),
        "every_token": partial(table, count=lambda n, p: n, entry=lambda slots, p: slots // p),
        "offset": partial(table, entry=lambda slots, p: slots[::p] % p),
        "pad_zero": partial(table, pad=0),
        "counted": partial(table, entry=lambda slots, p: slots[0] // p + np.arange(len(slots) // p)),
        "sorted": lambda *a: _sorted(table(*a)),
        "longest": partial(table, wide=lambda counts: [max(counts)] * len(counts)),
    },
    hints=(
        Hint("Whole pages are handed out, so the tokens k · page_size … of a request share a page.", 1),
        Hint("Take every page_size-th slot of the request's row, up to its length, and divide it by page_size.", 3),
        Hint("slots = req_to_token[req_pool_indices[i], :seq_lens[i]:page_size]; entries = slots // page_size.", 8),
    ),
)
KV_INDICES = FunctionExercise(
    id="indices",
    title="CSR arrays as FlashInfer reads them",
    file="page_table.py",
    function="kv_indices",
    truth=csr,
    criteria=(
        Criterion("csr", 20, "kv_indptr, kv_indices and last_page_len, requests of any length"),
        Criterion("full_csr", 10, "last_page_len where the last page is full"),
    ),
    groups=(
        CaseGroup("csr", make),
        CaseGroup("full_csr", lambda r: make(r, lambda page: [page * int(n) for n in r.integers(1, 5, 3)]), 4),
    ),
    ideas=CSR_IDEAS,
    wrong={
        "last_zero": partial(csr, last=lambda n, p: n % p),
        "last_length": partial(csr, last=lambda n, p: n),
        "last_free": partial(csr, last=lambda n, p: -n % p),
        "no_zero": partial(csr, indptr=lambda counts: np.cumsum(counts).tolist()),
        "counts": partial(csr, indptr=lambda counts: [0, *counts]),
        "tokens": lambda t, rows, lens, p: [np.array([0, *np.cumsum(lens)], np.int32), *csr(t, rows, lens, p)[1:]],
        "floor": partial(csr, count=lambda n, p: n // p),
        "row_number": partial(csr, row=lambda i, rows: i),
        "slots": partial(csr, entry=lambda slots, p: slots[::p]),
        "last_index": partial(csr, last=lambda n, p: (n - 1) % p),
    },
    hints=(
        Hint("kv_indptr is what np.cumsum makes of the page counts, with a 0 first.", 1),
        Hint("last_page_len is 1 to page_size: subtract 1 before the modulo and add it after.", 3),
    ),
)


def _sorted(found: Array) -> Array:
    out = found.copy()
    for row in out:
        used = row[row >= 0]
        row[: len(used)] = np.sort(used)
    return out


def _pages(random: Random) -> tuple[str, Question]:
    page, tokens = random.choice([16, 32, 64, 128]), random.randrange(1000, 5000)
    return (
        f"How many pages of {page} tokens does a request of {tokens} tokens hold?",
        Question(lambda: ceil(tokens, page), "{truth}.", "Round up: a page that is not full is a page."),
    )


def _slot(random: Random) -> tuple[str, Question]:
    page, position = random.choice([8, 16, 32]), random.randrange(40, 90)
    pages = random.sample(range(100), 14)
    return (
        f"page_size is {page}, and a request's pages are {pages}.\nIn which slot is its token at position {position}?",
        Question(
            lambda: pages[position // page] * page + position % page,
            "{truth}: the page's number times page_size, and the place on the page.",
            "Which of the pages, and which place on it?",
        ),
    )


def _slot_on_first_page(random: Random) -> int:
    page, position = random.choice([8, 16, 32]), random.randrange(40, 90)
    return random.sample(range(100), 14)[0] * page + position


def _down(random: Random) -> int:
    page, tokens = random.choice([16, 32, 64, 128]), random.randrange(1000, 5000)
    return tokens // page


LAB = Lab(
    id="01",
    name="page_table",
    title="The page table",
    goal="Turn a batch's req_to_token rows into the page table and the CSR arrays that decode kernels read.",
    minutes=40,
    exercises=(
        PAGE_TABLE,
        KV_INDICES,
        AnswerExercise.of(
            "01",
            Asked("pages", 5, _pages, (("floor", "Rounded down: the last page, not full, counts, too.", _down),)),
            Asked(
                "slot",
                5,
                _slot,
                (("neighbours", "You took the pages for neighbours: they lie anywhere.", _slot_on_first_page),),
            ),
        ),
    ),
    reading=("notebooks/02_page_tables.ipynb",),
)
