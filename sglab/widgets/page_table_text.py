"""What PageTable says in words."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from sglab.words import plural
from sglab.workbench.recorders.page_pool import CACHED, FREE, PagePool

LISTED = 6


def numbers(values: Iterable[int]) -> str:
    """ "1, 2, 3", "1 … 40" for a run, "1, 7, … 90" for many."""
    listed = [int(value) for value in values]
    if len(listed) > 2 and listed == list(range(listed[0], listed[-1] + 1)):
        return f"{listed[0]} … {listed[-1]}"
    if len(listed) > LISTED + 1:  # "…" stands for two at least
        return f"{', '.join(map(str, listed[: LISTED - 1]))}, … {listed[-1]}"
    return ", ".join(map(str, listed))


def subject(batch_size: int, tokens: int, pool: PagePool) -> str:
    page = plural(pool.page_size, "token")
    size = f"{plural(pool.num_pages, 'page')} and dummy page 0"
    return f"{plural(batch_size, 'request')} · {plural(tokens, 'token')} · pages of {page} · pool of {size}"


def changed_pages(before: PagePool, after: PagePool) -> list[int]:
    """Pages whose holders or slots in use differ. Free list places and request numbers shift without meaning."""
    columns = [1, 3]
    return np.flatnonzero((before.pages[:, columns] != after.pages[:, columns]).any(axis=1)).tolist()


def after_edit(action: str, name: str, request: int | None, tokens: int, before: PagePool, after: PagePool) -> str:
    """What an edit did, in a sentence or two; `request` is the one it was about, None if that has left."""
    if action == "evict":
        return f"The radix tree gave back {plural(after.summary()['free'] - before.summary()['free'], 'page')}."
    if request is None:
        return _after_free(name, before, after)
    mine = _pages_of(after, request)
    new = [page for page in mine if before.pages[page, 1] == 0]
    if action == "extend":
        return _after_extend(name, mine, after, int(after.requests[request, 1]), new)
    seq_len, size = int(after.requests[request, 1]), after.page_size
    last = seq_len % size
    said = f"{name}: {plural(seq_len, 'token')} in {plural(len(mine), 'page')} ({numbers(mine)})"
    if action == "share":
        shared = len(mine) - len(new)
        said += f". {plural(shared, 'page')} shared, {plural(len(new), 'new page')} from the free list"
        if tokens // size * size < tokens and size > 1:
            said += f"; the prefix ends inside a page, so its last {plural(tokens % size, 'token')} were computed again"
    elif size > 1:
        whole = plural(seq_len // size, "whole page")
        said += f", {whole}{f' and a last one with {size - last} slots left' if last else ''}"
    return said + "."


def _after_extend(name: str, mine: list[int], after: PagePool, seq_len: int, new: list[int]) -> str:
    token, size = seq_len - 1, after.page_size
    slot = mine[-1] * size + token % size
    how = "the first slot of a new page" if new else "the next slot of its last page"
    return f"{name}: token {token:,} went to slot {slot:,}, {how} ({mine[-1]})."


def _after_free(name: str, before: PagePool, after: PagePool) -> str:
    lost = after.pages[:, 1] < before.pages[:, 1]
    owner = after.pages[:, 0]
    freed = np.flatnonzero(lost & (owner == FREE))
    said = f"{name} left. {plural(len(freed), 'page')} free again"
    said += f" ({numbers(freed)})" if len(freed) else ""
    for kept, noun, where in (
        (owner >= 0, "shared page", "with other requests"),
        (owner == CACHED, "page", "in the radix tree"),
    ):
        count = int((lost & kept).sum())
        said += f"; {plural(count, noun)} stayed {where}" if count else ""
    return said + "."


def _pages_of(pool: PagePool, request: int) -> list[int]:
    start, stop = pool.request_indptr[request : request + 2]
    return pool.request_pages[start:stop].tolist()
