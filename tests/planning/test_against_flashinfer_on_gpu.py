"""Plans equal, byte for byte, what an installed FlashInfer plans on this machine's GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sglab import planning
from sglab.planning.csr import last_page_len, num_pages, page_indptr, token_indptr

torch = pytest.importorskip("torch")
flashinfer = pytest.importorskip("flashinfer")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.slow,  # FlashInfer compiles its kernels first
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

PAGE_SIZE = 16
BATCHES = [[4096] * 32, [100, 5000, 200, 8000], [1], [17] * 100, list(range(1, 3000, 40))]


def sms() -> int:
    return int(torch.cuda.get_device_properties(0).multi_processor_count)


def on_gpu(values: Any) -> Any:
    return torch.as_tensor(np.asarray(values), dtype=torch.int32, device="cuda")


def float_workspace() -> Any:
    return torch.empty(512 << 20, dtype=torch.uint8, device="cuda")


def array_at(wrapper: Any, offset: int, like: np.ndarray) -> np.ndarray:
    """What the real plan left in the int workspace where `like` belongs."""
    raw = wrapper._int_workspace_buffer[offset : offset + like.nbytes].cpu().numpy()
    return raw.view(like.dtype)


@pytest.mark.parametrize("lens", BATCHES)
@pytest.mark.parametrize(("heads", "kv_heads"), [(32, 8), (8, 8)])
def test_prefill(lens: list[int], heads: int, kv_heads: int) -> None:
    queries = [min(length, 1 + i % 50) for i, length in enumerate(lens)]
    wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(float_workspace(), "NHD", backend="fa2")
    wrapper.plan(
        on_gpu(token_indptr(queries)),
        on_gpu(page_indptr(lens, PAGE_SIZE)),
        on_gpu(np.arange(int(num_pages(lens, PAGE_SIZE).sum()))),
        on_gpu(last_page_len(lens, PAGE_SIZE)),
        heads,
        kv_heads,
        128,
        PAGE_SIZE,
    )
    plan = planning.prefill_plan(
        token_indptr(queries),
        page_indptr(lens, PAGE_SIZE),
        num_qo_heads=heads,
        num_kv_heads=kv_heads,
        page_size=PAGE_SIZE,
        sm_count=sms(),
    )
    assert list(wrapper._plan_info) == plan.plan_info.tolist()
    for array, field in ((plan.request_indices, 4), (plan.qo_tile_indices, 5), (plan.kv_tile_indices, 6)):
        assert np.array_equal(array_at(wrapper, int(plan.plan_info[field]), array), array)


@pytest.mark.parametrize("lens", BATCHES)
def test_decode(lens: list[int]) -> None:
    """The occupancy of the decode kernel is the driver's to say: some count of blocks per SM must explain the plan."""
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(float_workspace(), "NHD", use_tensor_cores=False)
    indptr = page_indptr(lens, PAGE_SIZE)
    wrapper.plan(
        on_gpu(indptr),
        on_gpu(np.arange(int(indptr[-1]))),
        on_gpu(last_page_len(lens, PAGE_SIZE)),
        32,
        8,
        128,
        PAGE_SIZE,
    )
    plans = [
        planning.decode_plan(
            indptr, num_qo_heads=32, num_kv_heads=8, page_size=PAGE_SIZE, sm_count=sms(), num_blocks_per_sm=blocks
        )
        for blocks in range(1, 33)
    ]
    matching = [plan for plan in plans if plan.plan_info.tolist() == list(wrapper._plan_info)]
    assert matching
    plan = matching[0]
    for array, field in ((plan.request_indices, 3), (plan.kv_tile_indices, 4), (plan.o_indptr, 5)):
        assert np.array_equal(array_at(wrapper, int(plan.plan_info[field]), array), array)


@pytest.mark.parametrize("lens", BATCHES)
@pytest.mark.parametrize("heads", [16, 128])
def test_mla(lens: list[int], heads: int) -> None:
    wrapper = flashinfer.mla.BatchMLAPagedAttentionWrapper(float_workspace(), backend="fa2")
    queries, indptr = token_indptr([1] * len(lens)), page_indptr(lens, PAGE_SIZE)
    wrapper.plan(
        on_gpu(queries),
        on_gpu(indptr),
        on_gpu(np.arange(int(indptr[-1]))),
        on_gpu(lens),
        heads,
        512,
        64,
        PAGE_SIZE,
        False,
        192**-0.5,
        torch.bfloat16,
        torch.bfloat16,
    )
    plan = planning.mla_plan(queries, indptr, lens, num_heads=heads, sm_count=sms())
    assert list(wrapper._plan_info) == plan.plan_info.tolist()
