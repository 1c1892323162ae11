"""paged_kv_t index arithmetic and the fast division behind it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglab import planning

uint32 = st.integers(0, 2**32 - 1)


@given(n=uint32, d=st.integers(1, 2**32 - 1))
def test_fast_division_is_division(n: int, d: int) -> None:
    assert planning.UintFastDiv.of(d).divmod(n) == divmod(n, d)


@pytest.mark.parametrize("d", [1, 2, 3, 7, 64, 128, 641, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1])
def test_fast_division_at_the_edges(d: int) -> None:
    edges = [0, 1, d - 1, d, min(d + 1, 2**32 - 1), 2**31, 2**32 - 2, 2**32 - 1]
    n = np.array(edges, dtype=np.uint32)
    quotients, remainders = planning.UintFastDiv.of(d).divmod(n)
    assert quotients.tolist() == [x // d for x in edges]
    assert remainders.tolist() == [x % d for x in edges]


def test_powers_of_two_are_shifts() -> None:
    page_size = planning.UintFastDiv.of(64)
    assert (page_size.multiplier, page_size.shift) == (0, 6)
    with pytest.raises(ValueError, match=r"divisor: expected an integer from 1 .*got 0"):
        planning.UintFastDiv.of(0)


def pool(layout: str) -> planning.PagedKV:
    return planning.PagedKV.contiguous(
        num_heads=2,
        page_size=4,
        head_dim=8,
        layout=layout,
        indices=[5, 3, 7],
        indptr=[0, 2, 2, 3],
        last_page_len=[1, 9, 4],
    )


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_offsets_are_those_of_the_dense_pool(layout: str) -> None:
    shape = (10, 4, 2, 8) if layout == "NHD" else (10, 2, 4, 8)
    flat = np.arange(np.prod(shape)).reshape(shape)
    page, head, entry, feature = 7, 1, 3, 5
    expected = flat[page, entry, head, feature] if layout == "NHD" else flat[page, head, entry, feature]
    assert pool(layout).get_elem_offset(page, head, entry, feature) == expected
    assert pool(layout).get_v_elem_offset(page, head, entry, feature) == expected


def test_lengths() -> None:
    kv = pool("NHD")
    assert [kv.get_length(i) for i in range(3)] == [5, 0, 4]


def test_the_protective_offset_reads_the_start_of_the_pool_past_the_table() -> None:
    kv = pool("NHD")
    assert kv.protective_get_k_offset(1, 0, 2, 0, last_indptr=3) == kv.get_elem_offset(3, 0, 2, 0)
    assert kv.protective_get_k_offset(3, 0, 2, 0, last_indptr=3) == 0
    assert kv.protective_get_v_offset(3, 1, 2, 0, last_indptr=3) == 0


def test_locate_finds_page_and_entry() -> None:
    kv = pool("NHD")
    assert kv.locate(0, 4) == (1, 0)
    assert kv.locate(2, 3) == (2, 3)
    with pytest.raises(ValueError, match="position: expected 0 to 4, got 5"):
        kv.locate(0, 5)
