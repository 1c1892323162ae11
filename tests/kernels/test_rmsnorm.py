"""RMSNorms against their formula in float64."""

import pytest
import torch

from sglab.kernels import ContractError, fused_add_rmsnorm, gemma_fused_add_rmsnorm, gemma_rmsnorm, rmsnorm
from tests.support.kernels.compare import ROUNDING, assert_close


def formula(x, weight, eps):
    return x.double() / (x.double().square().mean(-1, keepdim=True) + eps).sqrt() * weight.double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_all_four(dtype, implementation, device, generator) -> None:
    wide = torch.randn(5, 200, generator=generator).to(device, dtype)
    x, residual = wide[:, :96], torch.randn(5, 96, generator=generator).to(device, dtype)
    weight = torch.randn(96, generator=generator).to(device, dtype)
    for norm, factor in ((rmsnorm, weight), (gemma_rmsnorm, weight.double() + 1)):
        assert_close(norm(x, weight, 1e-3, implementation=implementation), formula(x, factor, 1e-3), ROUNDING[dtype])
    for norm, factor in ((fused_add_rmsnorm, weight), (gemma_fused_add_rmsnorm, weight.double() + 1)):
        normed, total = x.clone(), residual.clone()
        norm(normed, total, weight, 1e-3, implementation=implementation)
        assert_close(total, x + residual, 0)
        assert_close(normed, formula(total, factor, 1e-3), ROUNDING[dtype])
    before = x.clone()
    assert rmsnorm(x, weight, out=x, implementation=implementation) is x
    assert_close(x, formula(before, weight, 1e-6), ROUNDING[dtype])


def test_refusals() -> None:
    x, weight = torch.zeros(3, 8), torch.zeros(8)
    with pytest.raises(ContractError, match="out must be memory separate from x"):
        rmsnorm(x[1:], weight, out=x[:2])
    with pytest.raises(ContractError, match="weight must be of shape"):
        gemma_rmsnorm(x, weight[:4])
    with pytest.raises(ContractError, match="eps must be finite"):
        rmsnorm(x, weight, float("nan"))
