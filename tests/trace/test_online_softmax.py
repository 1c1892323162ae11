"""What is recorded of online softmax is what the kernel computes, and what float64 says."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

import sglab  # noqa: E402
from sglab.attention import reference  # noqa: E402
from sglab.kernels import merge_states  # noqa: E402
from sglab.trace.online_softmax import LOG2_E, OnlineSoftmaxRun, record_online_softmax  # noqa: E402

BATCH = sglab.decode_batch([150, 400], num_heads=20, page_size=16, seed=3, kv_lora_rank=64, qk_rope_head_dim=16)
MHA = sglab.decode_batch([200], num_heads=4, num_kv_heads=2, kind="mha", head_dim=64, page_size=16, dtype="float32")


def record(
    batch: sglab.engine.Batch = BATCH,
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
    batch: sglab.engine.Batch, request_: int, head: int
) -> None:
    pytest.importorskip("triton")
    run = record(batch, request_, head, tile=64, implementation="triton")  # the kernel's own tile
    assert run.choice.implementation == "triton"
    assert run.agreement < 2e-5


@pytest.mark.parametrize(("batch", "request_", "head"), [(BATCH, 1, 17), (BATCH, 0, 3), (MHA, 0, 3)])
def test_truths_of_the_splits_merge_to_the_float64_answer(batch: sglab.engine.Batch, request_: int, head: int) -> None:
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
