"""The allocators: what they hand out, what they refuse, and that nothing is ever lost."""

from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sglab.engine import BadArgumentError, PagedTokenToKVPoolAllocator, TokenToKVPoolAllocator
from sglab.engine.cache.paged_allocator import extend_parts


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def extend(
    allocator: PagedTokenToKVPoolAllocator, prefix: list[int], seq: list[int], last: list[int]
) -> torch.Tensor | None:
    p, s = ints(*prefix), ints(*seq)
    return allocator.alloc_extend(p, p, s, s, ints(*last), int((s - p).sum()))


def decode(allocator: PagedTokenToKVPoolAllocator, seq: list[int], last: list[int]) -> torch.Tensor | None:
    return allocator.alloc_decode(ints(*seq), ints(*seq), ints(*last))


@pytest.mark.parametrize(
    ("prefix", "seq", "page", "parts"),
    [
        (0, 10, 4, (0, 8, 2)),
        (3, 10, 4, (1, 4, 2)),
        (5, 7, 4, (2, 0, 0)),
        (8, 12, 4, (0, 4, 0)),
        (3, 4, 4, (1, 0, 0)),
        (9, 9, 4, (0, 0, 0)),
        (0, 3, 1, (0, 3, 0)),
    ],
)
def test_an_extend_splits_into_old_page_whole_pages_new_page(
    prefix: int, seq: int, page: int, parts: tuple[int, int, int]
) -> None:
    assert extend_parts(prefix, seq, page) == parts


def test_alloc_extend_fills_the_old_page_then_whole_pages_then_a_new_one() -> None:
    allocator = PagedTokenToKVPoolAllocator(40, 4)
    assert extend(allocator, [0], [3], [-1]).tolist() == [4, 5, 6]
    out = extend(allocator, [3, 0], [10, 5], [6, -1])
    assert out.tolist() == [7, 8, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20]
    assert allocator.free_pages.tolist() == [6, 7, 8, 9, 10]


def test_alloc_decode_takes_a_page_only_on_a_boundary() -> None:
    allocator = PagedTokenToKVPoolAllocator(16, 4)
    first = extend(allocator, [0, 0], [3, 4], [-1, -1])
    assert first.tolist() == [4, 5, 6, 8, 9, 10, 11]
    assert decode(allocator, [4, 5], [6, 11]).tolist() == [7, 12]
    assert allocator.available_size() == 4


def test_too_little_is_refused_with_nothing_taken() -> None:
    paged = PagedTokenToKVPoolAllocator(16, 4)
    assert extend(paged, [0], [17], [-1]) is None
    assert paged.alloc(20) is None
    assert paged.free_pages.tolist() == [1, 2, 3, 4]
    token = TokenToKVPoolAllocator(3)
    assert token.alloc(4) is None
    assert token.alloc(3).tolist() == [1, 2, 3]


@pytest.mark.parametrize("need_sort", [False, True])
def test_freed_pages_come_back_first_or_sorted(need_sort: bool) -> None:
    allocator = PagedTokenToKVPoolAllocator(16, 4, need_sort=need_sort)
    slots = allocator.alloc(16)
    allocator.free(slots[8:12])
    allocator.free(slots[0:4])
    assert allocator.available_size() == 8
    assert [int(page) // 4 for page in allocator.alloc(8)[::4]] == [1, 3]
    allocator.free(slots[12:16])
    allocator.free(slots[4:8])
    order = [int(page) // 4 for page in allocator.alloc(8)[::4]]
    assert order == [2, 4]


def test_with_need_sort_freed_pages_are_sorted_in_by_sglangs_estimate() -> None:
    """By hand from SGLang 0.5.9: an extend sorts when tokens // page + requests + 1 pages are not at hand, a decode
    when there are fewer pages than requests, however few pages either takes."""
    for taken, expected in (
        (lambda a: extend(a, [0], [4], [-1]), [4, 5, 6, 7]),
        (lambda a: decode(a, [5, 3, 3], [11, 13, 17]), [4, 14, 18]),
    ):
        allocator = PagedTokenToKVPoolAllocator(16, 4, need_sort=True)
        allocator.alloc(8)
        allocator.free(ints(4))
        assert allocator.free_pages.tolist() == [3, 4] and allocator.release_pages.tolist() == [1]
        slots = taken(allocator)
        assert slots is not None and slots.tolist() == expected


def test_a_free_group_is_one_free() -> None:
    allocator = PagedTokenToKVPoolAllocator(16, 4)
    slots = allocator.alloc(16)
    allocator.free_group_begin()
    allocator.free(slots[0:2])
    allocator.free(slots[2:4])
    assert allocator.available_size() == 0
    allocator.free_group_end()
    assert allocator.available_size() == 4


def test_wrong_frees_name_the_page_and_free_nothing() -> None:
    paged, token = PagedTokenToKVPoolAllocator(16, 4), TokenToKVPoolAllocator(4)
    slots = paged.alloc(8)
    with pytest.raises(BadArgumentError, match=r"pages 1\.\.4, got page 0"):
        paged.free(ints(3, 4))
    with pytest.raises(BadArgumentError, match="page 3, which is free"):
        paged.free(ints(4, 12))
    token.alloc(2)
    with pytest.raises(BadArgumentError, match="twice"):
        token.free(ints(1, 1))
    with pytest.raises(BadArgumentError, match=r"pages 1\.\.4, got page 5"):
        token.free(ints(5))
    assert (paged.available_size(), token.available_size()) == (8, 2)
    paged.free(slots)
    assert paged.available_size() == 16


def test_wrong_arguments_are_refused_by_name() -> None:
    allocator = PagedTokenToKVPoolAllocator(16, 4)
    with pytest.raises(BadArgumentError, match=r"size: expected a positive multiple of page_size 4, got 15"):
        PagedTokenToKVPoolAllocator(15, 4)
    with pytest.raises(BadArgumentError, match=r"last_loc: .*prefix_len % page_size, got a violation at request 0"):
        extend(allocator, [3], [5], [7])
    with pytest.raises(BadArgumentError, match=r"last_loc: .*seq_len % page_size"):
        decode(allocator, [4], [7])
    with pytest.raises(BadArgumentError, match="extend_num_tokens: expected the sum"):
        allocator.alloc_extend(ints(0), ints(0), ints(5), ints(5), ints(-1), 6)
    with pytest.raises(BadArgumentError, match="need_size"):
        allocator.alloc(6)
    assert allocator.available_size() == 16


@pytest.mark.parametrize("make", [lambda: PagedTokenToKVPoolAllocator(16, 4), lambda: TokenToKVPoolAllocator(16)])
def test_negative_sizes_and_slots_that_are_no_integers_change_nothing(make: Any) -> None:
    allocator = make()
    held = allocator.alloc(8)
    before = allocator.free_pages.tolist()
    for size in (-4, 4.0, "4", None):
        with pytest.raises(BadArgumentError, match="need_size: expected an integer of at least 0"):
            allocator.alloc(size)
    for slots in (held.float(), held.tolist(), held > 4, None):
        with pytest.raises(BadArgumentError, match="free_index: expected an int32 or int64 tensor"):
            allocator.free(slots)
    assert allocator.free_pages.tolist() == before
    allocator.free(held.to(torch.int32))
    assert allocator.available_size() == 16


class PagedAllocatorMachine(RuleBasedStateMachine):
    """Random extends, decodes and frees against a list of owned slots per request."""

    @initialize(page=st.sampled_from([1, 2, 4, 16]), pages=st.integers(1, 24), need_sort=st.booleans())
    def build(self, page: int, pages: int, need_sort: bool) -> None:
        self.page, self.pages = page, pages
        self.allocator = PagedTokenToKVPoolAllocator(page * pages, page, need_sort=need_sort)
        self.requests: list[list[int]] = []

    def pages_of(self, length: int) -> int:
        return -(-length // self.page)

    def free_page_count(self) -> int:
        return self.pages - sum(self.pages_of(len(slots)) for slots in self.requests)

    @rule(lengths=st.lists(st.integers(1, 60), min_size=1, max_size=3))
    def admit(self, lengths: list[int]) -> None:
        out = extend(self.allocator, [0] * len(lengths), lengths, [-1] * len(lengths))
        assert (out is not None) == (sum(map(self.pages_of, lengths)) <= self.free_page_count())
        if out is not None:
            self.requests += [part.tolist() for part in out.split(lengths)]

    @rule(more=st.integers(0, 40), data=st.data())
    def extend_one(self, more: int, data: st.DataObject) -> None:
        if not self.requests:
            return
        slots = data.draw(st.sampled_from(self.requests))
        need = self.pages_of(len(slots) + more) - self.pages_of(len(slots))
        out = extend(self.allocator, [len(slots)], [len(slots) + more], [slots[-1]])
        assert (out is not None) == (need <= self.free_page_count())
        if out is not None:
            slots += out.tolist()

    @rule()
    def decode_all(self) -> None:
        if not self.requests:
            return
        need = sum(len(slots) % self.page == 0 for slots in self.requests)
        out = decode(self.allocator, [len(s) + 1 for s in self.requests], [s[-1] for s in self.requests])
        assert (out is not None) == (need <= self.free_page_count())
        if out is not None:
            for slots, slot in zip(self.requests, out.tolist(), strict=True):
                slots.append(slot)

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        if self.requests:
            slots = self.requests.pop(data.draw(st.integers(0, len(self.requests) - 1)))
            self.allocator.free(ints(*slots))

    @invariant()
    def no_page_is_lost_or_owned_twice(self) -> None:
        free = self.allocator.free_pages.tolist() + self.allocator.release_pages.tolist()
        owned = [page for slots in self.requests for page in sorted({slot // self.page for slot in slots})]
        assert sorted(free + owned) == list(range(1, self.pages + 1))

    @invariant()
    def every_request_is_page_aligned(self) -> None:
        for slots in self.requests:
            assert all(slot % self.page == token % self.page for token, slot in enumerate(slots))
            assert all(
                slot // self.page == slots[token // self.page * self.page] // self.page
                for token, slot in enumerate(slots)
            )


TestPagedAllocatorIsLeakFree = PagedAllocatorMachine.TestCase
TestPagedAllocatorIsLeakFree.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
