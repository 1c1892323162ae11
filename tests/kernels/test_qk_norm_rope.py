"""qk_norm_rope_store: its kernel agrees with the float64 reference, and that with the three operators it joins."""

import pytest
import torch

from sglab.kernels import (
    ContractError,
    apply_rope_with_cos_sin_cache_inplace,
    last_choice,
    qk_norm_rope_store,
    rmsnorm,
    store_cache,
)

ROUNDING = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Relative to the largest element."""
SHAPES = [(6, 2, 16, 16, 16), (3, 1, 40, 24, 8), (17, 5, 8, 2, 12), (4, 4, 24, 24, 24)]
"""heads, kv_heads, head_dim, rotary_dim, v_head_dim"""


class Case:
    """Tensors of one call; q, k and v are parts of one row, as a merged projection gives them."""

    def __init__(
        self, shape: tuple[int, ...], norm: bool, is_neox: bool, dtype: torch.dtype, device: torch.device
    ) -> None:
        heads, kv_heads, dim, rotary, v_dim = shape
        torch.manual_seed(heads)
        self.sizes = [heads * dim, kv_heads * dim, kv_heads * v_dim]
        self.row = torch.randn(5, sum(self.sizes)).to(device, dtype)
        q, k, v = self.row.split(self.sizes, -1)
        self.q, self.k, self.v = (
            q.unflatten(-1, (heads, dim)),
            k.unflatten(-1, (kv_heads, dim)),
            v.unflatten(-1, (kv_heads, v_dim)),
        )
        self.positions = torch.tensor([3, 0, 49, 7, 7]).to(device)
        self.cos_sin = torch.randn(50, rotary).to(device)
        self.k_cache = torch.full((9, kv_heads, dim), 7.0).to(device, dtype)
        self.v_cache = torch.full((9, kv_heads, v_dim), 7.0).to(device, dtype)
        self.slots = torch.tensor([4, 8, 1, 2, 6]).to(device)
        self.weights = [torch.randn(dim).to(device, dtype) for _ in range(2)] if norm else [None, None]
        self.is_neox = is_neox

    def run(self, implementation: str = "reference") -> list[torch.Tensor]:
        rows = (self.positions, self.q, self.k, self.v, self.cos_sin, self.k_cache, self.v_cache, self.slots)
        qk_norm_rope_store(*rows, *self.weights, 1e-5, self.is_neox, implementation=implementation)
        return self.results()

    def results(self) -> list[torch.Tensor]:
        return [self.row, self.k_cache, self.v_cache]


def error(out: torch.Tensor, expected: torch.Tensor) -> float:
    return float((out.double() - expected.double()).abs().max() / expected.double().abs().max())


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize(("norm", "is_neox"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernel(
    shape: tuple[int, ...], norm: bool, is_neox: bool, dtype: torch.dtype, device: torch.device
) -> None:
    mine, expected = Case(shape, norm, is_neox, dtype, device), Case(shape, norm, is_neox, dtype, device)
    for out, wanted in zip(mine.run("triton"), expected.run(), strict=True):
        assert error(out, wanted) <= ROUNDING[dtype]
    assert torch.equal(mine.v_cache, expected.v_cache)
    assert torch.equal(mine.k_cache[mine.slots], mine.k)
    assert (mine.k_cache[[0, 3, 5, 7]] == 7).all()
    choice = last_choice()
    assert choice is not None
    assert choice.operator == "qk_norm_rope_store"


@pytest.mark.parametrize("dtype", ROUNDING)
@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_three_operators_in_one(
    shape: tuple[int, ...], norm: bool, dtype: torch.dtype, device: torch.device
) -> None:
    mine, apart = Case(shape, norm, True, dtype, device), Case(shape, norm, True, dtype, device)
    mine.run()
    if norm:
        for heads, weight in zip((apart.q, apart.k), apart.weights, strict=True):
            heads.copy_(rmsnorm(heads.flatten(0, 1), weight, 1e-5, implementation="reference").view_as(heads))
    apply_rope_with_cos_sin_cache_inplace(apart.positions, apart.q, apart.k, apart.cos_sin, implementation="reference")
    store_cache(apart.k, apart.v, apart.k_cache, apart.v_cache, apart.slots, implementation="reference")
    for out, wanted in zip(mine.results(), apart.results(), strict=True):
        assert error(out, wanted) <= ROUNDING[dtype]


def test_padding_rows_share_slot_0(device: torch.device) -> None:
    case = Case(SHAPES[0], True, True, torch.float32, device)
    case.slots = torch.tensor([4, 0, 0, 2, 0]).to(device)
    case.run("triton")
    assert torch.equal(case.k_cache[[4, 2]], case.k[[0, 3]])


def test_what_is_wrong_is_named() -> None:
    case = Case(SHAPES[0], True, True, torch.float32, torch.device("cpu"))
    whole = case.row.clone()
    for name, value, message in (
        ("slots", torch.tensor([4, 8, 1, 2, 9]), r"indices must be from 0 to 8; got indices\[4\] = 9"),
        ("slots", torch.tensor([4, 8, 1, 2, 4]), "free of duplicates .slot 0 excepted.; got slot 4 twice"),
        ("positions", torch.tensor([3, 0, 50, 7, 7]), r"positions must be from 0 to 49; got positions\[2\] = 50"),
        ("weights", [torch.ones(16), None], "k_weight must be given with q_weight"),
        ("k_cache", case.k_cache.half(), "k_cache must be float32, as query is; got float16"),
        ("v_cache", case.k_cache, "k_cache must be memory separate from v_cache"),
    ):
        before = getattr(case, name)
        setattr(case, name, value)
        with pytest.raises(ContractError, match=message):
            case.run()
        setattr(case, name, before)
    assert torch.equal(case.row, whole)
