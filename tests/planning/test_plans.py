"""Every planner of the registry: its work covers the batch, its placement is possible, its totals add up."""

import sys
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglab.planning import PLANNERS, Plan

SHAPES = {"mla": (128, 1), "any": (32, 8)}
LENS = st.lists(st.integers(1, 9000), min_size=1, max_size=40)


def plan_of(name: str, lens: list[int], sm_count: int = 132, **options: object) -> Plan:
    heads, kv_heads = SHAPES[PLANNERS[name].attention]
    return PLANNERS[name](lens, num_heads=heads, num_kv_heads=kv_heads, sm_count=sm_count, **options)


@pytest.mark.parametrize("name", PLANNERS)
@settings(max_examples=25)
@given(lens=LENS, sm_count=st.sampled_from([8, 132, 148]))
def test_every_token_is_covered_once_per_head_block(name: str, lens: list[int], sm_count: int) -> None:
    work = plan_of(name, lens, sm_count).work
    blocks = np.unique(work.head_block)
    order = np.lexsort((work.token_start, work.head_block, work.request))
    request, block = work.request[order], work.head_block[order]
    start, end = work.token_start[order], work.token_end[order]
    first = np.append(True, (np.diff(request) != 0) | (np.diff(block) != 0))
    last = np.append(first[1:], True)
    assert first.sum() == len(lens) * blocks.size
    assert (start[first] == 0).all()
    assert (start[~first] == end[:-1][~first[1:]]).all()
    assert (end[last] == np.array(lens)[request[last]]).all()
    assert (end > start).all()


@pytest.mark.parametrize("name", PLANNERS)
@settings(max_examples=25)
@given(lens=LENS, sm_count=st.sampled_from([8, 132, 148]))
def test_no_slot_does_two_things_at_once(name: str, lens: list[int], sm_count: int) -> None:
    plan = plan_of(name, lens, sm_count)
    work, launch = plan.work, plan.launch
    assert (work.end - work.start == work.token_end - work.token_start).all()
    assert (work.sm < sm_count).all()
    assert (work.slot < launch.ctas_per_sm).all()
    assert (work.cta < launch.num_ctas).all()
    assert (work.cluster == work.cta // launch.cluster_size).all()
    order = np.lexsort((work.wave, work.slot, work.sm))
    same = (np.diff(work.sm[order]) == 0) & (np.diff(work.slot[order]) == 0)
    assert (np.diff(work.wave[order])[same] == 1).all()
    assert (work.start[order][1:][same] >= work.end[order][:-1][same]).all()


@pytest.mark.parametrize("name", PLANNERS)
def test_totals(name: str) -> None:
    plan = plan_of(name, [100, 5000, 200, 8000])
    busy = int((plan.work.end - plan.work.start).sum())
    assert plan.makespan == plan.work.end.max()
    assert plan.idle_share == pytest.approx(1 - busy / (plan.launch.num_slots * plan.makespan))
    assert plan.occupancy == len(set(plan.work.sm.tolist())) / 132
    assert plan.waves == np.prod(plan.grid) / plan.launch.num_slots
    assert plan.workspace_bytes >= 0
    assert (plan.merge.partials == 0) == (plan.merge.bytes_read == 0)


def test_a_cluster_is_a_pair_of_neighbouring_sms() -> None:
    work = plan_of("cutlass_mla_individual", [4096] * 4).work
    pairs = work.sm.reshape(-1, 2)
    assert (pairs[:, 0] % 2 == 0).all()
    assert (pairs[:, 1] == pairs[:, 0] + 1).all()
    assert (work.head_block.reshape(-1, 2) == [0, 1]).all()


def test_waves_of_the_reference_page() -> None:
    """B200, 4 requests of 8K: 1.73 waves with SM-budgeted splits, 0.86 with cluster-budgeted ones."""
    upstream = plan_of("cutlass_mla_individual", [8192] * 4, 148)
    aware = plan_of("flashinfer_cutlass_mla", [8192] * 4, 148)
    assert upstream.waves == pytest.approx(1.73, abs=0.005)
    assert aware.scalars["split_kv"] == 16
    assert aware.grid == (128, 1, 1)
    assert upstream.makespan == aware.makespan  # twice the splits, two waves, the same end
    assert upstream.merge.partials == 2 * aware.merge.partials


def test_merge_work_counts_one_partial_per_head_and_split() -> None:
    plan = plan_of("cutlass_mla_individual", [8192, 128], 148)
    assert plan.arrays["local_split_kv"].tolist() == [64, 1]
    assert plan.merge.partials == 64 * 128
    assert plan.merge.bytes_read == 64 * 128 * (512 * 4 + 4)
    assert plan.merge.outputs == 128


def test_head_dims_and_pages_default_to_the_planners_own() -> None:
    assert plan_of("flash_attention_3", [4096] * 2).scalars["kBlockN"] == 128
    mla = PLANNERS["flash_attention_3"]([4096] * 2, num_heads=128, num_kv_heads=1, sm_count=132)
    assert (mla.scalars["kBlockM"], mla.scalars["kBlockN"]) == (64, 64)


def test_graph_padding_shows_in_the_grid_but_not_in_the_work() -> None:
    plan = plan_of("flashinfer_decode", [100, 5000], enable_cuda_graph=True)
    assert plan.grid == (33, 8, 1)
    assert len(plan.work) == int(plan.arrays["block_valid_mask"].sum()) * 8


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("cutlass_mla_individual", {"num_kv_heads": 8}, "num_kv_heads: expected 1, since cutlass_mla plans MLA, got 8"),
        ("cutlass_mla_individual", {"num_heads": 256}, "num_heads: expected at most 128"),
        ("cutlass_mla_individual", {"page_size": 48}, "page_size: expected 1 or 2 .* got 48"),
        ("flash_mla", {"page_size": 16}, "page_size: expected 64 for flash_mla, got 16; set page_size=64"),
        ("flash_mla", {"sm_count": 0}, "sm_count: expected an integer from 2 .* got 0; an H100 has 132 SMs"),
        ("flashinfer_decode", {"num_heads": 128}, "num_heads: expected a group of .* use flashinfer_prefill"),
        ("flashinfer_prefill_sm90", {}, r"head_dim_qk, head_dim_vo: expected one of .* got \(576, 512\)"),
        ("sglang_triton", {"num_heads": 3, "num_kv_heads": 2}, "num_heads: expected a multiple of num_kv_heads=2"),
        ("sglang_triton", {"seq_lens": []}, "seq_lens: expected at least one request"),
        ("sglang_triton", {"seq_lens": [[1]]}, "seq_lens: expected a one-dimensional sequence"),
        ("sglang_triton", {"seq_lens": [5, -1]}, r"seq_lens\[1\]: expected an integer from 0 .* got -1"),
    ],
)
def test_bad_input_is_named(name: str, change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"seq_lens": [100, 200], "num_heads": 128, "num_kv_heads": 1, "sm_count": 132}
    with pytest.raises(ValueError, match=message):
        PLANNERS[name](**(arguments | change))


def test_lengths_must_be_integers() -> None:
    with pytest.raises(TypeError, match="seq_lens: expected integers, got dtype float64"):
        plan_of("sglang_triton", [1.5])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"num_heads: expected an integer .* got 'many'"):
        PLANNERS["sglang_triton"]([1], num_heads="many", num_kv_heads=1, sm_count=132)  # type: ignore[arg-type]


def test_an_unknown_option_is_named_with_the_planners_own() -> None:
    arguments: dict[str, int] = {"num_heads": 8, "num_kv_heads": 1, "sm_count": 132, "splits": 3}
    with pytest.raises(TypeError, match=r"splits: .* option of sglang_triton.*its own options are max_kv_splits"):
        PLANNERS["sglang_triton"]([5], **arguments)
    with pytest.raises(TypeError, match=r"splits: .* option of flash_mla.*it has no options of its own"):
        PLANNERS["flash_mla"]([5], **arguments)


@pytest.mark.parametrize("name", PLANNERS)
def test_twice_the_requests_take_no_more_than_twice_the_calls(name: str) -> None:
    """The widget replans while a length is dragged; benchmarks/planning.py shows how long that takes."""
    lens = np.random.default_rng(0).integers(1, 4096, 512).tolist()
    small, large = (calls(lambda n=n: plan_of(name, lens[:n])) for n in (256, 512))
    assert large < 2.5 * small


def calls(run: Callable[[], object]) -> int:
    """Python and C functions that `run` calls."""
    count = 0

    def seen(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    ("name", "heads", "kv_heads", "said"),
    [
        ("flash_mla", 16, 1, "16 query heads of one KV head"),
        ("flashinfer_mla", 128, 1, "64 query heads"),
        ("flashinfer_mla", 100, 1, "up to 64 query heads"),
        ("cutlass_mla_individual", 128, 1, "64 query heads: one CTA of the pair"),
        ("cutlass_mla_individual", 16, 1, "up to 16 query heads: one CTA of the pair"),
        ("flash_attention_3", 32, 8, "4 query heads of one KV head"),
        ("flashinfer_decode", 8, 8, "1 query head of one KV head"),
        ("flashinfer_prefill", 32, 8, "4 query heads of one KV head"),
    ],
)
def test_a_head_block_holds_no_more_heads_than_there_are(name: str, heads: int, kv_heads: int, said: str) -> None:
    plan = PLANNERS[name]([300, 40], num_heads=heads, num_kv_heads=kv_heads, sm_count=132)
    assert plan.head_block_is == said
