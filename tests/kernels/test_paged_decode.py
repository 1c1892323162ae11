"""FlashInfer's batch decode: paged cache, cp.async stages, xor shuffles, states of several rows merged at the end."""

import math

import pytest

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.kernels import ContractError, batch_decode_with_paged_kv_cache
from sglab.kernels.paged_decode.contract import check
from sglab.kernels.paged_decode.cuda import prepare


def inputs(seq_lens: list[int], group: int, kv_heads: int = 2, page_size: int = 16, device: str = "cpu") -> list:
    random = torch.Generator().manual_seed(sum(seq_lens) + group)
    counts = [-(-length // page_size) for length in seq_lens]
    indptr = torch.tensor([0, *counts]).cumsum(0).int()
    pages = int(indptr[-1]) + 3
    indices = torch.randperm(pages, generator=random).int()[: int(indptr[-1])]
    last = torch.tensor([(length - 1) % page_size + 1 for length in seq_lens]).int()
    q = torch.randn(len(seq_lens), kv_heads * group, 128, generator=random).half()
    k, v = (torch.randn(pages, page_size, kv_heads, 128, generator=random).half() for _ in "kv")
    return [tensor.to(device) for tensor in (q, k, v, indptr, indices, last)]


def compare(tensors: list) -> None:
    out, lse = batch_decode_with_paged_kv_cache(*tensors, implementation="cuda")
    expected, expected_lse = batch_decode_with_paged_kv_cache(*tensors, implementation="reference")
    torch.testing.assert_close(out, expected, rtol=2e-3, atol=5e-4)
    torch.testing.assert_close(lse, expected_lse, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("group", [1, 4, 8])
@pytest.mark.parametrize("page_size", [1, 16, 64])
def test_matches_float64(group: int, page_size: int) -> None:
    compare(inputs([1, 33, 100, 0, 257], group, page_size=page_size))


@pytest.mark.gpu
@pytest.mark.parametrize("group", [1, 4, 8])
def test_matches_float64_on_a_gpu(group: int) -> None:
    if not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU")
    compare(inputs([1, 33, 4000, 0, 257] * 20, group, kv_heads=8, device="cuda"))


def test_a_request_without_pages_gives_0_and_minus_infinity() -> None:
    out, lse = batch_decode_with_paged_kv_cache(*inputs([0], group=4))
    assert (out == 0).all() and (lse == -math.inf).all()


def test_keys_past_the_last_token_are_not_read_as_numbers() -> None:
    tensors = inputs([5], group=8)
    _, k, v, _, indices, _ = tensors
    k[indices.long(), 5:], v[indices.long(), 5:] = math.nan, math.inf
    out, _ = batch_decode_with_paged_kv_cache(*tensors)
    assert out.isfinite().all()


@pytest.mark.parametrize("scheduler", ["fair", "random", "adversarial", "in_order"])
def test_no_schedule_and_no_sanitizer_finds_fault(scheduler: str) -> None:
    arguments = check(*inputs([77, 130], group=4), None, None, None, None)
    report = gpu.EmulatedDevice("sm_90a", scheduler=scheduler, seed=3, sanitize=True).run(prepare(arguments))
    assert report.findings == ()


def test_group_of_three_is_refused() -> None:
    q, k, v, indptr, indices, last = inputs([10], group=1)
    with pytest.raises(ContractError, match="q must be of 2, 8 or 16 heads for 2 KV heads; got 6"):
        batch_decode_with_paged_kv_cache(q.repeat(1, 3, 1), k, v, indptr, indices, last)


@pytest.mark.parametrize(("argument", "value", "message"), [(4, 99, "from 0 to 3"), (5, 17, "from 1 to page_size")])
def test_contents_are_checked(argument: int, value: int, message: str) -> None:
    tensors = inputs([10], group=1)
    tensors[argument][0] = value
    with pytest.raises(ContractError, match=message):
        batch_decode_with_paged_kv_cache(*tensors)
