"""Appending to paged caches: FlashInfer's functions and SGLang's fused rotation."""

import pytest
import torch

from sglab.kernels import (
    ContractError,
    append_paged_kv_cache,
    append_paged_mla_kv_cache,
    apply_rope_inplace_with_kvcache,
    apply_rope_with_cos_sin_cache_inplace,
)
from tests.support.kernels.compare import assert_close


def request_tokens(device):
    """Requests of 2 and 3 pages of 4; tokens of the second first."""
    indices = torch.tensor([5, 0, 3, 1, 6], dtype=torch.int32, device=device)
    indptr, last = (torch.tensor(x, dtype=torch.int32, device=device) for x in ([0, 2, 5], [1, 3]))
    batch, positions = (torch.tensor(x, dtype=torch.int32, device=device) for x in ([1, 1, 0, 0, 1], [8, 2, 7, 0, 5]))
    pages = [6, 3, 0, 5, 1]
    return batch, positions, indices, indptr, last, pages


@pytest.mark.parametrize("layout", ["NHD", "HND"])
def test_paged_append(layout, implementation, device, generator) -> None:
    batch, positions, indices, indptr, last, pages = request_tokens(device)
    cache = torch.zeros(7, 2, 4, 3, 8, device=device).half()
    cache = cache if layout == "NHD" else cache.transpose(2, 3).contiguous()
    k, v = (torch.randn(5, 3, 8, generator=generator).half().to(device) for _ in range(2))
    append_paged_kv_cache(k, v, batch, positions, cache, indices, indptr, last, layout, implementation=implementation)
    rows = cache if layout == "NHD" else cache.transpose(2, 3)
    for token, page in enumerate(pages):
        row = int(positions[token]) % 4
        assert_close(rows[page, 0, row], k[token], 0)
        assert_close(rows[page, 1, row], v[token], 0)
    assert (rows != 0).any(-1).any(-1).sum() == 10, "nothing else is written"


def test_mla_append(implementation, device, generator) -> None:
    batch, positions, indices, indptr, last, pages = request_tokens(device)
    ckv, kpe = (torch.randn(5, dim, generator=generator).to(device) for dim in (32, 8))
    caches = torch.zeros(7, 4, 32, device=device), torch.zeros(7, 4, 8, device=device)
    append_paged_mla_kv_cache(
        *(ckv, kpe, batch, positions, *caches, indices, indptr, last), implementation=implementation
    )
    for token, page in enumerate(pages):
        assert_close(caches[0][page, int(positions[token]) % 4], ckv[token], 0)
        assert_close(caches[1][page, int(positions[token]) % 4], kpe[token], 0)


@pytest.mark.parametrize("is_neox", [True, False])
def test_fused_rotation_equals_rotation_then_store(is_neox, implementation, device, generator) -> None:
    q, k, v = (torch.randn(4, heads, 24, generator=generator).to(device, torch.bfloat16) for heads in (9, 2, 2))
    caches = [torch.zeros(10, 2 * 24, device=device).to(torch.float8_e4m3fn) for _ in range(2)]
    table = torch.randn(30, 16, generator=generator).to(device)
    positions, loc = torch.tensor([7, 0, 29, 3], device=device), torch.tensor([4, -1, 9, 1], device=device)
    wanted_q, wanted_k = q.clone(), k.clone()
    apply_rope_with_cos_sin_cache_inplace(positions, wanted_q, wanted_k, table, is_neox, implementation="reference")
    scales = torch.tensor([0.004, 0.5], device=device)  # the first makes values saturate
    apply_rope_inplace_with_kvcache(
        *(q, k, v, *caches, table, positions, loc),
        is_neox=is_neox,
        k_scale=scales,
        v_scale=2.0,
        implementation=implementation,
    )
    assert_close(q, wanted_q, 8e-3)
    assert_close(k, wanted_k, 8e-3)
    kept = loc >= 0
    for cache, x, scale in zip(caches, (k, v), (scales[:, None], 2.0), strict=True):
        wanted = (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
        assert_close(cache[loc[kept]].float(), wanted[kept].flatten(1).float(), 0)
        assert (cache.float() != 0).any(1).sum() == 3, "a negative slot drops its token"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": torch.tensor([8]).int()}, "positions must be within the request's pages"),
        ({"batch_indices": torch.tensor([1]).int()}, "batch_indices must be from 0 to 0"),
        ({"kv_indices": torch.tensor([4, 9]).int()}, "slots must be below 36"),
        ({"kv_layout": "DHN"}, "kv_layout must be 'NHD' or 'HND'"),
        ({"k_scale": 0.0}, "k_scale must be positive"),
        ({"append_value": torch.zeros(1, 2, 8)}, "v must be of shape"),
    ],
)
def test_refusals(change, message) -> None:
    call = {
        "append_key": torch.ones(1, 3, 8),
        "append_value": torch.ones(1, 3, 8),
        "batch_indices": torch.tensor([0]).int(),
        "positions": torch.tensor([5]).int(),
        "paged_kv_cache": torch.zeros(9, 2, 4, 3, 8),
        "kv_indices": torch.tensor([4, 2]).int(),
        "kv_indptr": torch.tensor([0, 2]).int(),
        "kv_last_page_len": torch.tensor([2]).int(),
    }
    with pytest.raises(ContractError, match=message):
        append_paged_kv_cache(**{**call, **change})
    assert not call["paged_kv_cache"].any()
