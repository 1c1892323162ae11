"""The rotation, the fused norm and the gated activations: the Triton kernels agree with float64 references."""

from collections.abc import Callable

import pytest
import torch

from sglab.kernels import (
    ContractError,
    apply_rope_with_cos_sin_cache_inplace,
    fused_add_rmsnorm,
    gelu_tanh_and_mul,
    silu_and_mul,
)

ROUNDING = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
"""Relative to the largest element."""
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def error(out: torch.Tensor, expected: torch.Tensor) -> float:
    return float((out.double() - expected.double()).abs().max() / expected.double().abs().max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_neox", [True, False])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim", "rotary"), [(6, 2, 16, 16), (3, 1, 40, 24), (17, 4, 8, 2)])
def test_rotation(
    heads: int, kv_heads: int, head_dim: int, rotary: int, is_neox: bool, dtype: torch.dtype, device: torch.device
) -> None:
    torch.manual_seed(heads)
    width = (heads + 2 * kv_heads) * head_dim
    qkv = torch.randn(5, width).to(device, dtype)
    cache, positions = torch.randn(50, rotary).to(device), torch.tensor([3, 0, 49, 7, 7]).to(device)
    turned = []
    for implementation in ("triton", "reference"):
        rows = qkv.clone()
        q, k, _ = rows.split([heads * head_dim, kv_heads * head_dim, kv_heads * head_dim], -1)
        apply_rope_with_cos_sin_cache_inplace(
            positions,
            q.unflatten(-1, (heads, head_dim)),
            k.unflatten(-1, (kv_heads, head_dim)),
            cache,
            is_neox,
            implementation=implementation,
        )
        turned.append(rows)
    assert error(*turned) <= ROUNDING[dtype]
    values = (heads + kv_heads) * head_dim
    assert torch.equal(turned[0][:, values:], qkv[:, values:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "hidden"), [(1, 8), (7, 100), (3, 2048)])
def test_fused_norm(rows: int, hidden: int, dtype: torch.dtype, device: torch.device) -> None:
    torch.manual_seed(hidden)
    x, residual, weight = (
        torch.randn(shape).to(device, dtype) for shape in ((rows, hidden), (rows, hidden), (hidden,))
    )
    results = []
    for implementation in ("triton", "reference"):
        mine = x.clone(), residual.clone()
        fused_add_rmsnorm(*mine, weight, 1e-5, implementation=implementation)
        results.append(mine)
    assert torch.equal(results[0][1], results[1][1])
    assert torch.equal(results[0][1], x + residual)
    assert error(results[0][0], results[1][0]) <= ROUNDING[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", [silu_and_mul, gelu_tanh_and_mul])
@pytest.mark.parametrize(("rows", "width"), [(1, 2), (5, 96), (2, 2500)])
def test_gated_activations(
    rows: int, width: int, operator: Callable[..., torch.Tensor], dtype: torch.dtype, device: torch.device
) -> None:
    x = (4 * torch.randn(rows, width)).to(device, dtype)
    assert error(operator(x, implementation="triton"), operator(x, implementation="reference")) <= ROUNDING[dtype]


def test_what_is_wrong_is_named() -> None:
    q, cache = torch.randn(2, 3, 8), torch.randn(10, 8)
    with pytest.raises(ContractError, match=r"positions must be from 0 to 9; got positions\[1\] = 10"):
        apply_rope_with_cos_sin_cache_inplace(torch.tensor([0, 10]), q, q.clone(), cache)
    with pytest.raises(ContractError, match="x must be memory separate from residual"):
        fused_add_rmsnorm(q[0], q[0], torch.ones(8))
    with pytest.raises(ContractError, match="x must be of an even number of columns"):
        silu_and_mul(torch.randn(2, 5))
