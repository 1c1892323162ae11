"""Triton's own warp roles on Blackwell: a loader, a multiplier, and the warps that store."""

from __future__ import annotations

import pytest
import torch

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

import sglab
from sglab import gpu


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0) * BM
    rows_of_a = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    rows_of_b = tl.make_tensor_descriptor(b, [N, K], [K, 1], [BN, BK])
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, num_stages=3, warp_specialize=True):
        total = tl.dot(rows_of_a.load([row, k]), rows_of_b.load([0, k]).T, total)
    at = (row + tl.arange(0, BM))[:, None] * N + tl.arange(0, BN)[None, :]
    tl.store(c + at, total)


@pytest.mark.filterwarnings("ignore:.*mbarrier_invalidated_early")
@pytest.mark.parametrize("K", [64, 192, 512])
def test_a_product_by_roles_is_right_though_its_pipeline_is_left_without_a_wait(K: int) -> None:
    a, b, c = torch.randn(256, K).half(), torch.randn(128, K).half(), torch.zeros(256, 128)
    launch = sglab.step(
        product[(2,)], a, b, c, 256, 128, K, BM=128, BN=128, BK=64, num_warps=4, device=gpu.EmulatedDevice("sm_100a")
    )
    report = launch.run()
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=0, atol=1e-3)
    assert {finding.kind for finding in report.findings} == {"mbarrier_invalidated_early"}
