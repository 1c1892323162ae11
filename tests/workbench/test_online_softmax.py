"""What is recorded of online softmax is what the kernel computes, and what float64 says."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.kernels import merge_states
from sglab.workbench import reference
from sglab.workbench.recorders.online_softmax import LOG2_E, OnlineSoftmaxRun, record_online_softmax

BATCH = sglab.decode_batch([150, 400], num_heads=20, page_size=16, seed=3, kv_lora_rank=64, qk_rope_head_dim=16)
MHA = sglab.decode_batch([200], num_heads=4, num_kv_heads=2, kind="mha", head_dim=64, page_size=16, dtype="float32")


def record(
    batch: sglab.workbench.Batch = BATCH,
    request: int = 1,
    head: int = 17,
    num_splits: int = 3,
    tile: int = 48,
    sharper: float = 1.0,
    implementation: str = "reference",
) -> OnlineSoftmaxRun:
    return record_online_softmax(batch, request, head, num_splits, tile, batch.sm_scale * sharper, implementation)


@pytest.mark.parametrize(("batch", "request_", "head"), [(BATCH, 1, 17), (BATCH, 0, 3), (MHA, 0, 3)])
def test_the_recorded_recurrence_ends_with_the_partials_of_the_triton_kernel(
    batch: sglab.workbench.Batch, request_: int, head: int
) -> None:
    pytest.importorskip("triton")
    run = record(batch, request_, head, tile=64, implementation="triton")  # the kernel's own tile
    assert run.implementation == "triton"
    assert run.agreement < 2e-5


@pytest.mark.parametrize(("batch", "request_", "head"), [(BATCH, 1, 17), (BATCH, 0, 3), (MHA, 0, 3)])
def test_truths_of_the_splits_merge_to_the_float64_answer(
    batch: sglab.workbench.Batch, request_: int, head: int
) -> None:
    run, expected = record(batch, request_, head), reference(batch)
    lse = run.true_lse.logsumexp(0)
    o = (run.true_lse - lse).exp() @ run.true_o
    assert torch.allclose(o, expected.o[request_, head], rtol=1e-12, atol=1e-12)
    assert math.isclose(lse, expected.lse[request_, head], rel_tol=1e-12)


def test_partials_merge_to_the_output_and_to_the_float64_answer() -> None:
    run, expected = record(), reference(BATCH)
    o, lse = merge_states(run.partial_o[None, :, None], run.partial_lse[None, :, None], base="e")
    assert torch.allclose(o[0, 0].double(), expected.o[1, 17], atol=1e-6)
    assert torch.allclose(o[0, 0], run.o.float(), atol=1e-3)
    assert math.isclose(lse.item(), run.lse.item(), rel_tol=1e-6)


def test_tiles_cover_every_key_once_and_stay_within_their_split() -> None:
    run = record()
    keys = [key for _, start, end in run.tiles.tolist() for key in range(start, end)]
    assert keys == list(range(400))
    for split, start, end in run.tiles.tolist():
        first, last = run.ranges[split]
        assert first <= start < end <= last
        assert end - start <= 48


@pytest.mark.parametrize("name", ["online", "d_starts_at_1"])
def test_right_formulas_hold_the_maximum_and_the_sum_of_the_keys_so_far(name: str) -> None:
    run = record(MHA, 0, 1)
    states = run.states[name]
    for step, (split, _, end) in enumerate(run.tiles.tolist()):
        seen = run.scores[run.ranges[split][0] : end].double()
        assert states.top[step] == seen.max()
        assert math.isclose(states.total[step], (seen - seen.max()).exp2().sum(), rel_tol=1e-6)
    assert states.error.max() < 1e-6


def test_a_d_that_starts_at_1_changes_nothing() -> None:
    states = record().states
    assert torch.equal(states["online"].o, states["d_starts_at_1"].o)
    assert torch.equal(states["online"].total, states["d_starts_at_1"].total)


def test_without_the_rescale_only_a_growing_maximum_does_harm() -> None:
    run = record(MHA, 0, 1, num_splits=1, tile=20)
    right, wrong = run.states["online"], run.states["no_rescale"]
    grew = (right.top.diff() > 0).nonzero().flatten()
    assert len(grew), "this seed must let the maximum grow"
    first = int(grew[0]) + 1
    assert wrong.error[:first].max() < 1e-6
    assert wrong.error[first] > 1e-3


def test_unshifted_exponentials_are_right_until_they_overflow() -> None:
    assert record(MHA, 0, 1).states["unshifted"].error.max() < 1e-5
    sharp = record(MHA, 0, 1, sharper=64.0)
    assert sharp.scores.max() > 88.72 * LOG2_E
    assert sharp.states["unshifted"].error.isnan().any()
    assert sharp.states["online"].error.max() < 1e-4


@pytest.mark.parametrize("name", ["divides_each_tile", "softmax_times_exp"])
def test_dividing_twice_is_wrong_from_the_first_tile_on(name: str) -> None:
    assert record().states[name].error.min() > 0.05


def test_splits_without_keys_stay_empty() -> None:
    run = record(BATCH, 0, 0, num_splits=8)
    used = len(run.ranges)
    assert used < 8
    assert (run.partial_lse[used:] == -math.inf).all()
    assert (run.true_lse[used:] == -math.inf).all()
    assert not run.partial_o[used:].any()


MLA = sglab.decode_batch([300, 77], num_heads=128, page_size=128, dtype="float16", seed=5)


def of(order: str, kernel: str = "decode_attention_fwd", num_splits: int = 3, request: int = 0) -> OnlineSoftmaxRun:
    return record_online_softmax(MLA, request, 77, num_splits, 64, MLA.sm_scale, "reference", order, kernel)


@pytest.mark.parametrize(("request_", "num_splits"), [(0, 1), (0, 2), (0, 3), (0, 5), (1, 4)])
def test_the_sm100_kernels_partials_are_those_of_its_own_splits(request_: int, num_splits: int) -> None:
    """Splits of whole tiles of 128 tokens; those without tokens stay −inf."""
    run = of("stored", "mla_decode_sm100", num_splits, request_)
    tokens = MLA.seq_lens[request_]
    tiles = -(-tokens // 128)
    share = 128 * -(-tiles // num_splits)
    assert run.ranges == [(first, min(first + share, tokens)) for first in range(0, tokens, share)]
    used = len(run.ranges)
    assert torch.allclose(run.partial_lse[:used].double(), run.true_lse[:used], atol=1e-3)
    assert torch.allclose(run.partial_o[:used].double(), run.true_o[:used], atol=2e-3)
    assert (run.partial_lse[used:] == -math.inf).all() and (run.true_lse[used:] == -math.inf).all()
    expected = reference(MLA)
    assert torch.allclose(run.o.double(), expected.o[request_, 77], atol=2e-3)
    assert math.isclose(run.lse.item(), expected.lse[request_, 77], abs_tol=1e-3)
    assert run.agreement < 2e-3
    assert (run.kernel, run.machine) == ("mla_decode_sm100", "emulated sm_100a")


def test_another_order_of_the_keys_changes_the_way_and_not_the_answer() -> None:
    stored, rising, falling = of("stored"), of("rising"), of("falling")
    assert (rising.scores.diff() >= -1e-4).all() and (falling.scores.diff() <= 1e-4).all()
    for run in (rising, falling):
        assert torch.allclose(run.o.float(), stored.o.float(), atol=2e-3)
        assert math.isclose(run.lse.item(), stored.lse.item(), abs_tol=1e-4)
    splits = falling.tiles[:, 0]
    inside = [step for step in range(1, len(splits)) if splits[step] == splits[step - 1]]
    assert (falling.states["online"].rescale[inside] == 1).all()
    assert (rising.states["online"].rescale[inside] < 1).all()


def test_a_masked_split_is_nan_without_the_guard_and_empty_with_it() -> None:
    run = of("masked")
    first, end = run.ranges[0]
    assert (run.scores[first:end] == -math.inf).all() and run.scores[end:].isfinite().all()
    assert run.true_lse[0] == -math.inf and not run.true_o[0].any()
    last = run.last_steps[0]
    online, guarded = run.states["online"], run.states["guarded"]
    assert online.total[last].isnan() and online.error[last].isnan()
    assert guarded.total[last] == 0 and not guarded.o[last].any() and guarded.error[last] == 0
    assert guarded.top[last] == -math.inf
    for step in run.last_steps[1:]:
        assert guarded.error[step] < 1e-3 and torch.equal(guarded.o[step], online.o[step])
    keys = MLA.runner.token_to_kv_pool.get_key_buffer(0)
    assert keys[MLA.slots(0)].isfinite().all()  # the batch's own cache is untouched


def test_a_query_of_zeros_cannot_be_masked() -> None:
    batch = sglab.decode_batch([100], num_heads=4, num_kv_heads=2, kind="mha", head_dim=64, page_size=16)
    batch.q.zero_()
    with pytest.raises(ValueError, match="order: expected not masked for a query that is 0"):
        record_online_softmax(batch, 0, 0, 2, 32, batch.sm_scale, "reference", order="masked")


def test_the_guard_changes_nothing_where_every_split_sees_a_key() -> None:
    states = of("stored").states
    assert torch.equal(states["guarded"].columns(), states["online"].columns())
    assert torch.equal(states["guarded"].o, states["online"].o)
