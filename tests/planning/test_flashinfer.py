"""FlashInfer's planners: golden values of the reference pages, invariants, graph mode."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglab import planning
from sglab.planning.arith import ceil_div
from sglab.planning.csr import get_seq_lens, last_page_len, num_pages, page_indptr, token_indptr
from sglab.planning.flashinfer_decode import PLAN_INFO_FIELDS as DECODE_FIELDS
from sglab.planning.flashinfer_decode import partition_paged_kv_cache
from sglab.planning.flashinfer_mla import PLAN_INFO_FIELDS as MLA_FIELDS
from sglab.planning.flashinfer_prefill import PLAN_INFO_FIELDS as PREFILL_FIELDS
from sglab.planning.flashinfer_prefill_sm90 import PLAN_INFO_FIELDS as SM90_FIELDS
from sglab.planning.libstdcxx import charge_cheapest, sort_descending

H100 = 132
Lens = st.lists(st.integers(0, 20_000), min_size=1, max_size=48)


def test_golden_decode_chunk() -> None:
    assert partition_paged_kv_cache(264, 4, [64, 32, 128, 16], 128 // 16) == (8, 30)


@pytest.mark.parametrize(
    ("lens", "heads", "expected"),
    [
        ([4096] * 32, 128, (2, 66, 2048)),
        ([4096] * 32, 16, (1, 132, 1024)),
        ([100, 5000, 200, 8000], 128, (2, 66, 256)),
    ],
)
def test_golden_mla(lens: list[int], heads: int, expected: tuple[int, int, int]) -> None:
    plan = planning.mla_plan(token_indptr([1] * len(lens)), page_indptr(lens, 64), lens, num_heads=heads, sm_count=H100)
    assert (plan.num_blks_x, plan.num_blks_y, plan.kv_len_limit) == expected


@pytest.mark.parametrize(
    ("packed", "vo", "qk", "expected"),
    [
        (16, 128, 0, 16),
        (17, 128, 0, 64),
        (64, 128, 0, 64),
        (65, 128, 0, 128),
        (65, 256, 0, 64),
        (32, 512, 576, 16),
        (33, 512, 576, 32),
        (1000, 256, 512, 16),
    ],
)
def test_cta_tile_q(packed: int, vo: int, qk: int, expected: int) -> None:
    assert planning.fa2_determine_cta_tile_q(packed, vo, qk) == expected


def test_cta_tile_q_needs_one_kv_step_in_shared_memory() -> None:
    """(448, 256) at 2 bytes wants 104,448 B: more than an RTX 4090 (SM89) grants, less at 1 byte."""
    sm89 = {"compute_capability_major": 8, "max_smem_per_block_optin": 101_376}
    assert planning.fa2_determine_cta_tile_q(16, 256, 448, **sm89) == 64
    assert planning.fa2_determine_cta_tile_q(16, 256, 448, kv_dtype_bytes=1, **sm89) == 16
    assert planning.fa2_determine_cta_tile_q(16, 128, compute_capability_major=7) == 64


def test_lengths_in_pages_and_in_tokens() -> None:
    lens = [1, 16, 17, 0, 300]
    assert num_pages(lens, 16).tolist() == [1, 1, 2, 0, 19]
    assert page_indptr(lens, 16).tolist() == [0, 1, 2, 4, 4, 23]
    assert token_indptr(lens).tolist() == [0, 1, 17, 34, 34, 334]
    assert last_page_len(lens, 16).tolist() == [1, 16, 1, 0, 12]


@given(lens=Lens, page=st.sampled_from([1, 2, 16, 64, 128]))
def test_lengths_survive_the_round_trip_through_pages(lens: list[int], page: int) -> None:
    assert get_seq_lens(page_indptr(lens, page), last_page_len(lens, page), page).tolist() == lens


@given(
    lens=st.lists(st.integers(1, 20_000), min_size=1, max_size=33),
    page=st.sampled_from([1, 16, 64]),
    kv_heads=st.sampled_from([1, 4, 8]),
    graph=st.booleans(),
)
def test_decode_blocks_cover_every_page_once(lens: list[int], page: int, kv_heads: int, graph: bool) -> None:
    plan = planning.decode_plan(
        page_indptr(lens, page),
        num_qo_heads=4 * kv_heads,
        num_kv_heads=kv_heads,
        page_size=page,
        sm_count=H100,
        enable_cuda_graph=graph,
    )
    if plan.split_kv:
        assert plan.new_batch_size * kv_heads <= plan.max_grid_size
    used = slice(plan.new_batch_size)
    chunk = plan.kv_chunk_size_in_pages
    for request, length in enumerate(lens):
        tiles = plan.kv_tile_indices[used][plan.request_indices[used] == request]
        assert tiles.tolist() == list(range(ceil_div(ceil_div(length, page), chunk)))
    assert np.array_equal(np.bincount(plan.request_indices[used], minlength=len(lens)), np.diff(plan.o_indptr))


def test_empty_requests_can_overflow_a_graph_s_grid() -> None:
    """The search counts no chunk for an empty request, which then gets one: the real plan writes past its arrays."""
    common = {"num_qo_heads": 32, "num_kv_heads": 8, "page_size": 1, "sm_count": H100}
    assert planning.decode_plan([0, 0, 4097], **common).new_batch_size * 8 > 2 * H100
    with pytest.raises(ValueError, match="kv_indptr: expected at most 33 chunks under a CUDA graph, got 34"):
        planning.decode_plan([0, 0, 4097], enable_cuda_graph=True, **common)


def test_a_graph_pads_decode_to_the_full_grid() -> None:
    plan = planning.decode_plan(
        [0, 1, 2], num_qo_heads=32, num_kv_heads=8, page_size=16, sm_count=H100, enable_cuda_graph=True
    )
    assert plan.split_kv
    assert plan.padded_batch_size == 2 * H100 // 8
    assert plan.block_valid_mask is not None
    assert plan.block_valid_mask.tolist() == [True, True] + [False] * 31
    assert dict(zip(DECODE_FIELDS, plan.plan_info.tolist(), strict=True))["padded_batch_size"] == 33


@given(qo=st.lists(st.integers(1, 200), min_size=1, max_size=24), data=st.data(), graph=st.booleans())
def test_prefill_blocks_cover_every_tile_and_chunk_once(qo: list[int], data: st.DataObject, graph: bool) -> None:
    kv = data.draw(st.lists(st.integers(0, 5000), min_size=len(qo), max_size=len(qo)))
    plan = planning.prefill_plan(
        token_indptr(qo),
        page_indptr(kv, 16),
        num_qo_heads=32,
        num_kv_heads=8,
        page_size=16,
        sm_count=H100,
        enable_cuda_graph=graph,
    )
    used = slice(plan.new_batch_size)
    blocks = list(
        zip(
            plan.request_indices[used].tolist(),
            plan.qo_tile_indices[used].tolist(),
            plan.kv_tile_indices[used].tolist(),
            strict=True,
        )
    )
    chunk = int(plan.kv_chunk_size_ptr[0])
    expected = [
        (request, tile, part)
        for request, (rows, length) in enumerate(zip(qo, kv, strict=True))
        for tile in range(-(-rows * 4 // plan.cta_tile_q))
        for part in range(max(1, -(-length // chunk)))
    ]
    assert blocks == expected
    if plan.merge_indptr is not None:
        assert plan.merge_indptr[-1] == plan.o_indptr[-1]
    if not graph:
        assert plan.padded_batch_size == plan.new_batch_size


def test_the_prefill_budget_is_two_ctas_per_sm_less_colocated_ones() -> None:
    common = {"num_qo_heads": 32, "num_kv_heads": 8, "page_size": 16, "sm_count": H100}
    assert planning.prefill_plan([0, 1], [0, 100], **common).max_batch_size_if_split == 33
    assert planning.prefill_plan([0, 1], [0, 100], num_colocated_ctas=100, **common).max_batch_size_if_split == 20


def test_a_window_clamps_pages() -> None:
    common = {"num_qo_heads": 8, "num_kv_heads": 8, "page_size": 16, "sm_count": H100, "fixed_split_size": 1}
    plan = planning.prefill_plan([0, 1], [0, 1000], window_left=100, **common)
    assert plan.new_batch_size == -(-(100 + plan.cta_tile_q) // 16)


def test_disable_split_kv_overflows_the_chunk_size_as_the_real_one_does() -> None:
    common = {"num_qo_heads": 8, "num_kv_heads": 8, "sm_count": H100, "disable_split_kv": True}
    assert planning.prefill_plan([0, 1], [0, 1000], page_size=16, **common).kv_chunk_size_ptr.tolist() == [-16]
    assert planning.prefill_plan([0, 1], [0, 1000], page_size=1, **common).kv_chunk_size_ptr.tolist() == [-1]


@given(lens=Lens, heads=st.sampled_from([16, 96, 128]), sms=st.sampled_from([7, 132, 148]))
def test_mla_works_cover_every_token_once(lens: list[int], heads: int, sms: int) -> None:
    plan = planning.mla_plan(token_indptr([1] * len(lens)), page_indptr(lens, 64), lens, num_heads=heads, sm_count=sms)
    rows_per_work = 64 * plan.num_blks_x
    for request, length in enumerate(lens):
        for row in range(0, heads, rows_per_work):
            mine = (plan.batch_indices == request) & (plan.q_start == row)
            pieces = sorted(zip(plan.kv_start[mine].tolist(), plan.kv_end[mine].tolist(), strict=True))
            assert pieces[0][0] == 0
            assert pieces[-1][1] == length
            assert all(a[1] == b[0] for a, b in pairwise(pieces))
            assert max(end - start for start, end in pieces) <= plan.kv_len_limit
            assert ((plan.partial_indptr[mine] >= 0) == (len(pieces) > 1)).all()


@given(lens=Lens)
def test_mla_merge_slices_cover_every_split_row_once(lens: list[int]) -> None:
    plan = planning.mla_plan(token_indptr([1] * len(lens)), page_indptr(lens, 64), lens, num_heads=128, sm_count=H100)
    rows = np.concatenate(
        [
            np.arange(start, end)
            for start, end in zip(plan.merge_packed_offset_start, plan.merge_packed_offset_end, strict=True)
        ]
    )
    split = [request for request, length in enumerate(lens) if length > plan.kv_len_limit]
    assert sorted(rows.tolist()) == [128 * request + row for request in split for row in range(128)]


def test_an_empty_request_still_gets_an_mla_work() -> None:
    plan = planning.mla_plan([0, 1, 2], [0, 0, 1], [0, 32], num_heads=128, sm_count=H100)
    assert sorted(zip(plan.batch_indices.tolist(), plan.kv_end.tolist(), strict=True)) == [(0, 0), (1, 32)]


def test_too_many_mla_work_units_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 16384 work units"):
        planning.mla_plan([0, 20_000], [0, 400], [25_000], num_heads=128, sm_count=H100)


def test_sm90_tiles_are_128_rows_or_192() -> None:
    common = {"num_qo_heads": 4, "num_kv_heads": 4, "sm_count": H100}
    plan = planning.prefill_sm90_plan([0, 200], [0, 4], [200], **common)
    assert (plan.cta_tile_q, plan.qo_len.size) == (128, 8)
    assert planning.prefill_sm90_plan([0, 200], [0, 4], [200], head_dim_vo=64, **common).cta_tile_q == 192


@given(costs=st.lists(st.integers(0, 40), max_size=300), workers=st.integers(1, 30))
def test_the_heap_gives_every_cost_to_a_cheapest_worker(costs: list[int], workers: int) -> None:
    load = np.zeros(workers, int)
    for cost, worker in zip(costs, charge_cheapest(workers, costs), strict=True):
        assert load[worker] == load.min()
        load[worker] += cost


def test_the_heap_adds_in_float32() -> None:
    """At 2**24 a unit step is lost, so worker 0 never catches up with worker 1."""
    assert charge_cheapest(2, [2**24, 2**24 + 2, 1, 1, 1, 1]).tolist() == [0, 1, 0, 0, 0, 0]


@given(keys=st.lists(st.integers(0, 9), max_size=400))
def test_the_sort_is_a_descending_permutation(keys: list[int]) -> None:
    order = sort_descending(keys)
    assert sorted(order.tolist()) == list(range(len(keys)))
    assert [keys[i] for i in order] == sorted(keys, reverse=True)


def test_the_sort_survives_the_killer_of_quicksort() -> None:
    """Organ-pipe and sawtooth inputs drive introsort to its heap sort."""
    for keys in ([min(i, 2000 - i) for i in range(2000)], [i % 2 for i in range(2000)], list(range(2000))):
        assert [keys[i] for i in sort_descending(keys)] == sorted(keys, reverse=True)


@pytest.mark.parametrize(
    ("fields", "count"), [(DECODE_FIELDS, 10), (PREFILL_FIELDS, 15), (SM90_FIELDS, 9), (MLA_FIELDS, 18)]
)
def test_plan_info_lengths(fields: tuple[str, ...], count: int) -> None:
    assert len(fields) == count
