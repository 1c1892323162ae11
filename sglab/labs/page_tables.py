"""Questions of notebook 02: from a request's tokens to slots, pages and index arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .code_question import CodeQuestion
from .question import Question

if TYPE_CHECKING:
    from sglab.workbench.batch import Batch


def slot_of_token(batch: Batch, request: int, position: int) -> Question:
    """The slot that holds one token."""
    return Question(
        truth=lambda: batch.slots(request)[position],
        because="Slot {truth}: one look into req_to_token, at the request's row and the token's position.",
        hint=(
            "batch.req_to_token has one row per request; batch.req_pool_indices says which row is whose. "
            f"Or press / in the widget and type r{request} {position}."
        ),
        ideas=(
            (position, "That is the position in the request. Which slot of the pool holds it, req_to_token says."),
            (
                int(batch.slots(request)[0]) + position,
                "Slots follow each other only within a page: after it the next page may lie anywhere.",
            ),
            (int(batch.slots(request)[position - 1]), "That is the token before it: positions count from 0."),
        ),
    )


def page_and_row(batch: Batch, request: int, position: int) -> Question:
    """The page of one token and its row inside that page."""
    return Question(
        truth=lambda: [
            int(batch.slots(request)[position]) // batch.page_size,
            int(batch.slots(request)[position]) % batch.page_size,
        ],
        because="[page, row] = {truth}: the slot's quotient and remainder by the page size.",
        hint="A page is page_size neighbouring slots: divide the slot by the page size and keep the remainder too.",
        ideas=(
            (
                [
                    int(batch.slots(request)[position]) % batch.page_size,
                    int(batch.slots(request)[position]) // batch.page_size,
                ],
                "The page comes first, then the row.",
            ),
            (
                [position // batch.page_size, position % batch.page_size],
                "That is the how-manieth page of the request. Which page of the pool is it?",
            ),
        ),
    )


def can_hold(page_size: int, slot: int, position: int) -> Question:
    """Whether a page-aligned allocator could have put this position into this slot."""
    return Question(
        truth=lambda: slot % page_size == position % page_size,
        because=(
            f"{{truth}}: {slot} % {page_size} = {slot % page_size}, {position} % {page_size} = {position % page_size}. "
            "Whole pages are handed out, so a token's row in its page is its position modulo the page size."
        ),
        hint="Compare slot % page_size with position % page_size for a few tokens of the batch: what always holds?",
        ideas=(
            (
                slot % page_size != position % page_size,
                f"Row {slot % page_size} of a page, and a position whose row is {position % page_size}: who hands "
                "out whole pages?",
            ),
        ),
    )


def page_table_entries(page_table: torch.Tensor) -> Question:
    """Entries that a kernel wrote into a page table that was filled with −1."""
    return Question(
        truth=lambda: int((page_table >= 0).sum()),
        because="{truth} entries, one per page, the last page of each request counted even when it is not full.",
        hint="Round each request's length up to whole pages, then add.",
        ideas=(
            (page_table.numel(), "So many entries has the table. Those that are still −1 were never written."),
            (
                int((page_table >= 0).sum()) - len(page_table),
                "A last page that is not full is a page of the request, too.",
            ),
        ),
    )


def tokens_before_new_page(seq_len: int, page_size: int) -> Question:
    """How many more tokens fit before a request of this length takes another page: an allocator is asked."""

    def truth() -> int:
        from sglab.workbench import decode_batch

        batch = decode_batch([seq_len], num_heads=1, page_size=page_size)
        pages, tokens = batch.pages(0), 0
        while batch.pages(0) == pages:
            batch.extend_by_token(0)
            tokens += 1
        return tokens - 1

    return Question(
        truth=truth,
        because="{truth}: that many rows of its last page are still empty. The next token after them takes a page.",
        hint="How many rows of the last page are in use?",
        ideas=(
            (seq_len % page_size, "So many rows of its last page are taken. How many are free?"),
            (-seq_len % page_size + 1, "The last of these is the one that takes a new page."),
            (page_size, "A whole page is free only after the last one was filled to the end."),
        ),
    )


def pages_for_shared_prefix(page_size: int, prefix: int, extra: int) -> Question:
    """New pages that a request takes when it shares a prefix and adds tokens of its own."""
    own = prefix % page_size + extra
    return Question(
        truth=lambda: -(-own // page_size),
        because=(
            f"{{truth}}: {prefix // page_size} whole pages are shared and cost nothing; the other "
            f"{prefix % page_size} prefix tokens and the {extra} new ones need pages of their own."
        ),
        hint="Only whole pages can be shared. Which of the prefix's tokens are in a page that is not full?",
        ideas=(
            (
                -(-(prefix + extra) // page_size),
                "So many pages it has in all. Whole pages of the prefix are shared, and cost nothing.",
            ),
            (
                -(-(prefix + extra) // page_size) + -prefix // page_size,
                "The prefix's last page is not full, so it is not shared: its tokens are computed again, in a "
                "page of its own.",
            ),
        ),
    )


def poisoned_rows(probabilities: torch.Tensor, values: torch.Tensor) -> Question:
    """How many output columns become NaN when one masked value row holds a NaN."""
    return Question(
        truth=lambda: int((probabilities.double() @ values.double()).isnan().sum()),
        because=(
            "{truth}, the column where the NaN is. 0 × NaN is NaN: masking the probability to zero does not keep a "
            "NaN out of the sum."
        ),
        hint="The masked row's probability is exactly 0. What is 0 × NaN?",
        ideas=(
            (0, "The weight is 0, but 0 × NaN is NaN, and a sum with NaN in it is NaN."),
            (values.shape[1], "One column of the values holds a NaN. Into which sums does it go?"),
        ),
    )


def slots_from_pages() -> CodeQuestion:
    """The exercise of writing slots(pages, seq_len, page_size): what req_to_token says, out of the page table."""

    def cases(random: torch.Generator) -> list[list[Any]]:
        from sglab.workbench import decode_batch

        drawn = []
        for page_size in (4, 1, 16, 64):
            lengths = torch.randint(1, 5 * page_size + 1, (2,), generator=random).tolist()
            seed = int(torch.randint(1000, (), generator=random))
            batch = decode_batch(lengths, num_heads=1, page_size=page_size, layout="fragmented", seed=seed)
            drawn += [[batch.pages(i), length, page_size] for i, length in enumerate(lengths)]
        return drawn

    def whole_pages(pages: list[int], seq_len: int, page_size: int) -> list[int]:
        return [page * page_size + row for page in pages for row in range(page_size)]

    return CodeQuestion(
        function="slots",
        cases=cases,
        truth=lambda pages, n, size: whole_pages(pages, n, size)[:n],
        because="From a page number per page you have what req_to_token holds per token. The pages were live ones, of "
        "fragmented pools.",
        ideas=(
            (whole_pages, "The last page is not full: stop after seq_len tokens."),
            (
                lambda pages, n, size: [pages[i // size] * size for i in range(n)],
                "That is each page's first slot; the token's row in the page is to be added.",
            ),
            (
                lambda pages, n, size: [pages[i // size] for i in range(n)],
                "Those are pages; a page has page_size slots.",
            ),
            (
                lambda pages, n, size: [pages[i // size] + i % size for i in range(n)],
                "A page's first slot is its number times page_size; the row is added to that.",
            ),
            (
                lambda pages, n, size: [pages[0] * size + i for i in range(n)],
                "Only within a page are slots neighbours: the next page may be anywhere.",
            ),
            (
                lambda pages, n, size: [pages[i % len(pages)] * size + i // len(pages) for i in range(n)],
                "Position // page_size is the entry of the page table, position % page_size the row. They are swapped.",
            ),
        ),
    )
