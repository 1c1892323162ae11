"""A call that a check has found right is not checked again; whatever differs from it is."""

from typing import Any

import pytest
import torch

from sglab.kernels import ContractError
from sglab.kernels.contract import Contract
from sglab.kernels.decode_attention.contract import DecodeArguments
from sglab.kernels.decode_attention.contract import check as check_decode
from sglab.kernels.launch_cache import MOST, Known
from sglab.kernels.layernorm.contract import check as check_norm
from sglab.kernels.scoring import Scoring


class Checks:
    """How many calls were checked."""

    count = 0


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Checks:
    counted, make = Checks(), Contract.__init__

    def counting(contract: Contract, operator: str) -> None:
        counted.count += 1
        make(contract, operator)

    monkeypatch.setattr(Contract, "__init__", counting)
    return counted


def decode(**changes: Any) -> DecodeArguments:
    given = {**TENSORS, **changes}
    scoring = Scoring(given.pop("sm_scale", 0.1), sinks=given.pop("sinks", None))
    return DecodeArguments(**given, scoring=scoring, lse=None)


TENSORS: dict[str, Any] = {
    "q": torch.zeros(2, 4, 16),
    "k_buffer": torch.zeros(9, 2, 16),
    "v_buffer": torch.zeros(9, 2, 16),
    "o": torch.zeros(2, 4, 16),
    "kv_indptr": torch.zeros(3, dtype=torch.int32),
    "kv_indices": torch.zeros(6, dtype=torch.int64),
    "attn_logits": torch.zeros(2, 4, 8, 16),
    "attn_lse": torch.zeros(2, 4, 8),
    "num_kv_splits": torch.ones(2, dtype=torch.int32),
    "max_kv_splits": 8,
}
WRONG: list[dict[str, Any]] = [
    {"q": torch.zeros(2, 3, 16)},
    {"q": TENSORS["q"].transpose(1, 2)},
    {"o": TENSORS["o"].half()},
    {"kv_indptr": TENSORS["kv_indptr"][:2]},
    {"kv_indices": TENSORS["kv_indices"].float()},
    {"max_kv_splits": 4},
    {"sm_scale": -0.1},
    {"sinks": torch.zeros(3)},
    {"k_scale": 0.0},
    {"v_scale": [1.0]},
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: next(iter(wrong)))
def test_a_decode(wrong: dict[str, Any], checks: Checks) -> None:
    for _ in range(3):
        check_decode(decode(), False)
    assert checks.count <= 1
    before = checks.count
    for _ in range(2):
        with pytest.raises(ContractError, match="must be"):
            check_decode(decode(**wrong), False)
    assert checks.count == before + 2


def test_a_decode_whose_tensors_moved_and_whose_indices_grew_is_the_same_call(checks: Checks) -> None:
    """A step later: every tensor is new, and there is a slot more for each request."""
    check_decode(decode(), False)
    before = checks.count
    moved = {name: value.clone() for name, value in TENSORS.items() if isinstance(value, torch.Tensor)}
    check_decode(decode(**{**moved, "kv_indices": torch.zeros(8, dtype=torch.int64)}), False)
    assert checks.count == before


def test_contents_are_read_where_they_are_asked_for(checks: Checks) -> None:
    check_decode(decode(), False)
    TENSORS["num_kv_splits"].fill_(9)
    TENSORS["kv_indptr"].copy_(torch.tensor([0, 3, 6]))
    try:
        check_decode(decode(), False)
        with pytest.raises(ContractError, match="num_kv_splits must be from 1 to max_kv_splits = 8"):
            check_decode(decode(), True)
    finally:
        TENSORS["num_kv_splits"].fill_(1)
        TENSORS["kv_indptr"].zero_()


def test_a_norm(checks: Checks) -> None:
    x, residual, weight = torch.zeros(2, 8), torch.zeros(2, 8), torch.ones(8)
    first, again = (check_norm("fused_add_rmsnorm", x, residual, weight, 1e-6, 1.0) for _ in range(2))
    assert checks.count == 1
    assert again.out is x
    assert (again.eps, again.offset) == (first.eps, first.offset) == (1e-6, 1.0)
    with pytest.raises(ContractError, match="x must be memory separate from residual"):
        check_norm("fused_add_rmsnorm", x, x, weight, 1e-6, 1.0)
    with pytest.raises(ContractError, match="eps must be finite"):
        check_norm("fused_add_rmsnorm", x, residual, weight, -1.0, 1.0)


def test_calls_that_never_end_are_forgotten() -> None:
    known = Known()
    for key in range(MOST + 1):
        known.add(key)
    assert MOST in known
    assert 0 not in known
