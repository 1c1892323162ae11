"""Plans equal, array for array, what the real planners computed when compiled and run (`golden/*.json`)."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sglab import planning

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> list[Any]:
    return json.loads((GOLDEN / f"{name}.json").read_text())["cases"]


def numbered(name: str) -> list[Any]:
    return [pytest.param(case["args"], case["expected"], id=f"{name}-{i}") for i, case in enumerate(golden(name))]


def assert_same(actual: Any, expected: Any) -> None:
    """`expected` is a number, a list, or the size and digest of a longer list."""
    values = np.asarray(actual).astype("<i8").ravel()
    if isinstance(expected, dict):
        assert values.size == expected["size"]
        assert hashlib.sha256(values.tobytes()).hexdigest() == expected["sha256"]
    else:
        assert values.tolist() == np.ravel(expected).tolist()


PLANS: dict[str, Callable[..., Any]] = {
    "flashinfer_decode": planning.decode_plan,
    "flashinfer_prefill": planning.prefill_plan,
    "flashinfer_prefill_sm90": planning.prefill_sm90_plan,
    "flashinfer_mla": planning.mla_plan,
    "flash_mla": planning.get_mla_metadata,
}


@pytest.mark.parametrize("name", PLANS)
def test_plan_arrays(name: str) -> None:
    for case in golden(name):
        if "error" in case["expected"]:
            with pytest.raises(ValueError):
                PLANS[name](**case["args"])
            continue
        plan = PLANS[name](**case["args"])
        for field, expected in case["expected"].items():
            assert_same(getattr(plan, field), expected)


@pytest.mark.parametrize(("args", "expected"), numbered("num_kv_splits"))
def test_num_kv_splits(args: dict[str, Any], expected: list[int]) -> None:
    assert planning.get_num_kv_splits(**args).tolist() == expected


def test_fa3_num_splits() -> None:
    for *arguments, expected in golden("fa3_num_splits"):
        assert planning.num_splits_heuristic(*arguments) == expected
