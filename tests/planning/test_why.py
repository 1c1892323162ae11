"""Why a planner cut a batch as it did: a sentence per plan, with its own numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from sglab.planning import PLANNERS


def test_every_planner_says_why_it_cut_as_it_did() -> None:
    rng = np.random.default_rng()
    lens = rng.integers(1, 20_000, rng.integers(1, 9)).tolist()
    stated = 0
    for planner in PLANNERS.values():
        for heads, kv_heads in ((128, 1), (32, 8)):
            try:
                plan = planner(lens, num_heads=heads, num_kv_heads=kv_heads, sm_count=132)
            except ValueError:
                continue
            stated += 1
            sentence = plan.why()
            assert len(sentence) > 40
            idle = plan.launch.num_ctas - len(set(plan.work.cta.tolist()))
            assert (f"{idle:,} of the {plan.launch.num_ctas:,} CTAs have no work." in sentence) == (idle > 0)
    assert stated > len(PLANNERS)


@pytest.mark.parametrize("name", ["cutlass_mla_individual", "flashinfer_cutlass_mla"])
def test_the_stated_budget_leads_to_the_planned_splits(name: str) -> None:
    rng = np.random.default_rng()
    for _ in range(20):
        lens = rng.integers(1, 100_000, rng.integers(1, 200)).tolist()
        plan = PLANNERS[name](lens, num_heads=128, num_kv_heads=1, sm_count=148)
        found = re.search(r"ceil\((\d+) / (\d+)\) = ([\d,]+) tiles? per split", plan.why())
        assert found
        tiles, budget, per_split = (int(each.replace(",", "")) for each in found.groups())
        assert (tiles, per_split) == (-(-max(lens) // 128), -(-tiles // budget))
        assert plan.scalars["split_kv"] == -(-tiles // per_split)


def test_a_fixed_number_of_splits_is_said_to_be_the_callers() -> None:
    batch = {"num_heads": 128, "num_kv_heads": 1, "sm_count": 148}
    asked = PLANNERS["sglang_cutlass_mla"]([5000, 300], **batch, num_kv_splits=3)
    assert "num_kv_splits = 3: every request gets that grid" in asked.why()
    left = PLANNERS["sglang_cutlass_mla"]([5000, 300], **batch, num_kv_splits=-1)
    assert "148 SMs // 2 requests = 74" in left.why()


def test_a_tile_size_of_the_callers_is_named() -> None:
    plan = PLANNERS["sglang_triton_deterministic"](
        [5000, 300], num_heads=32, num_kv_heads=8, sm_count=132, split_tile_size=512
    )
    assert plan.why().startswith("ceil(length / 512) splits")
