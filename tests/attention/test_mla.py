"""MLA: absorbed equals naive, the scale, and what the cache costs."""

import math

import pytest
import torch

from sglab.attention import torch_backend
from sglab.attention.arithmetic.dense import gathered
from sglab.attention.mla import (
    MLADims,
    MLAWeights,
    absorb_query,
    absorbed_mla,
    mla_softmax_scale,
    naive_mla,
    yarn_get_mscale,
)
from sglab.workbench import attend, decode_batch, max_error, reference

Arguments = tuple[torch.Tensor, torch.Tensor, torch.Tensor, MLAWeights]


def draw(dims: MLADims, queries: int, keys: int, seed: int) -> Arguments:
    generator = torch.Generator().manual_seed(seed)

    def randn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    weights = MLAWeights(
        randn(dims.num_heads, dims.qk_nope_head_dim, dims.kv_lora_rank) / dims.kv_lora_rank**0.5,
        randn(dims.num_heads, dims.v_head_dim, dims.kv_lora_rank) / dims.kv_lora_rank**0.5,
    )
    q_nope = randn(queries, dims.num_heads, dims.qk_nope_head_dim)
    q_rope = randn(queries, dims.num_heads, dims.qk_rope_head_dim)
    return q_nope, q_rope, randn(keys, dims.elements_per_token), weights


@pytest.mark.parametrize("dims", [MLADims(num_heads=4), MLADims(3, 5, 2, 7, 11)], ids=["DeepSeek dims", "odd dims"])
@pytest.mark.parametrize("seed", [0, 1])
def test_absorbed_equals_naive_in_float64(dims: MLADims, seed: int) -> None:
    arguments = draw(dims, queries=3, keys=50, seed=seed)
    scale = mla_softmax_scale(dims, yarn_factor=40, mscale_all_dim=1.0)
    naive, absorbed = naive_mla(*arguments, scale), absorbed_mla(*arguments, scale)
    assert naive.shape == (3, dims.num_heads, dims.v_head_dim)
    assert max_error(absorbed, naive) < 1e-12


def test_the_wrong_scale_gives_another_answer() -> None:
    arguments = draw(MLADims(num_heads=2), 2, 40, 0)
    right = naive_mla(*arguments, mla_softmax_scale(MLADims()))
    assert max_error(absorbed_mla(*arguments, 576**-0.5), right) > 1e-2


def test_the_engine_batch_is_the_absorbed_middle() -> None:
    """What `decode_batch` attends over is the step between the two products, with the same scale."""
    dims = MLADims(num_heads=4)
    q_nope, q_rope, cache, weights = draw(dims, 1, 60, 3)
    batch = decode_batch([60], num_heads=4, page_size=16, dtype="float32")
    batch.q[:] = absorb_query(q_nope, q_rope, weights)
    batch.runner.token_to_kv_pool.get_key_buffer(0)[batch.slots(0), 0] = cache.float()
    assert batch.sm_scale == pytest.approx(mla_softmax_scale(dims))
    o = torch.einsum("qhc,hdc->qhd", reference(batch).o, weights.w_uv)
    assert max_error(o, naive_mla(q_nope, q_rope, cache, weights, mla_softmax_scale(dims))) < 1e-5


def test_the_scale_counts_192_dims_and_yarns_mscale_twice() -> None:
    assert mla_softmax_scale(MLADims()) == pytest.approx(1 / math.sqrt(192))
    assert yarn_get_mscale(1.0, 1.0) == yarn_get_mscale(0.5, 1.0) == 1.0
    assert yarn_get_mscale(40, 1.0) == pytest.approx(1.3688879454)
    assert mla_softmax_scale(MLADims(), 40, 1.0) == pytest.approx(0.1352337788608)
    assert mla_softmax_scale(MLADims(), 40, 0.0) == pytest.approx(192**-0.5)


def test_what_the_cache_costs() -> None:
    dims = MLADims()
    assert dims.elements_per_token == 576
    assert dims.expanded_elements_per_token == 128 * (128 + 64 + 128)
    assert pytest.approx(0.719, abs=5e-4) == 1 - 576 / (2 * 8 * 128), "against GQA with 8 KV heads"
    assert pytest.approx(0.982, abs=5e-4) == 1 - 576 / (2 * 128 * 128), "against MHA with 128 heads"


@pytest.mark.parametrize("lengths", [[60], [5, 17, 1]])
def test_a_latent_row_is_read_once_for_its_key_and_its_value(
    lengths: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, read = decode_batch(lengths, num_heads=4, page_size=16, dtype="float32"), []

    def noted(buffer: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
        read.append(len(slots))
        return gathered(buffer, slots)

    monkeypatch.setattr(torch_backend, "gathered", noted)
    assert max_error(attend(batch, backend="torch_native"), reference(batch).o) < 1e-5
    assert read == lengths
