"""The questions of the notebook on rooflines: right answers, and the known wrong ones."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import sglab
from sglab.emulator.captures import Capture
from sglab.labs import roofline as lab
from sglab.roofline import MACHINES


def test_intensities_and_ridges() -> None:
    assert lab.decode_intensity().check(4).right
    for wrong in (8, 2, 1):
        assert lab.decode_intensity().check(wrong).right is False
    assert lab.larger_batch().check(1).right and lab.larger_batch().check(2).right is False
    assert lab.tokens_to_ridge().check(74).right and lab.tokens_to_ridge().check(73).right is False
    assert lab.prefill_length().check(738).right and lab.prefill_length().check(369).right is False
    assert lab.mla_compute_bound().check({"H200"}).right
    assert lab.mla_compute_bound().check({"H100", "H200"}).right is False


@pytest.mark.parametrize("question", [lab.roof(), lab.typical()], ids=["roof", "typical"])
def test_every_known_wrong_function_is_told_apart(question: lab.CodeQuestion) -> None:
    assert question.check(question.truth).right
    for function, feedback in question.ideas:
        verdict = question.check(function)
        assert verdict.right is False and verdict.text.startswith(feedback)


def test_a_pair_is_as_good_as_a_list() -> None:
    assert lab.roof().check(lambda *given: tuple(lab._roof(*given))).right


def test_recorded_times() -> None:
    assert all(set(ways) == set(lab.WAYS) for ways in lab.SAMPLES.values())
    assert lab.flattered().check(1.73).right and lab.flattered().check(0.58).right is False
    assert lab.nearest_roof().check("decode 32 × 4096").right
    assert lab.nearest_roof().check("product 4096³").right is False
    for point in lab.measured_points():
        assert point.seconds is not None and 0.1 < MACHINES["H100"].place(point.work).seconds / point.seconds < 1
    shown = lab.table()
    assert len(shown.splitlines()) == 1 + len(lab.SAMPLES) and "no sync" in shown


def traced(num_heads: int) -> Capture:
    pytest.importorskip("triton")
    batch = sglab.decode_batch([128], num_heads=num_heads, page_size=128, dtype="float16", seed=0)
    return sglab.trace(batch, backend="cutlass_mla")


def test_runs() -> None:
    few, many = traced(16), traced(128)
    assert lab.padding(few, many).check(8).right and lab.padding(few, many).check(1).right is False
    assert lab.what_limits(many).check("neither").right and lab.what_limits(many).check("memory").right is False
