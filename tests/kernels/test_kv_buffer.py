"""set_mla_kv_buffer: new tokens land in their slots, nothing else moves."""

import pytest
import torch

from sglab.kernels import ContractError, set_mla_kv_buffer

SLOTS, TOKENS = 40, 7


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn])
@pytest.mark.parametrize("heads_axis", [True, False])
def test_writes_latent_and_rope_into_each_slot(
    dtype: torch.dtype, heads_axis: bool, implementation: str, device: torch.device, generator: torch.Generator
) -> None:
    before = torch.randn(SLOTS, 1, 576, generator=generator).to(device, dtype)
    nope = torch.randn(TOKENS, 1, 512, generator=generator).to(device, dtype)
    rope = torch.randn(TOKENS, 1, 64, generator=generator).to(device, dtype)
    loc = (torch.randperm(SLOTS - 1, generator=generator)[:TOKENS] + 1).to(device)
    pool = before.clone()
    views = (pool, nope, rope) if heads_axis else (pool[:, 0], nope[:, 0], rope[:, 0])
    set_mla_kv_buffer(views[0], loc, views[1], views[2], implementation=implementation)
    assert same_bits(pool[loc, 0, :512], nope[:, 0])
    assert same_bits(pool[loc, 0, 512:], rope[:, 0])
    others = torch.ones(SLOTS, dtype=torch.bool, device=device)
    others[loc] = False
    assert same_bits(pool[others], before[others])


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8))


def test_follows_strides_of_pool_and_keys(
    implementation: str, device: torch.device, generator: torch.Generator
) -> None:
    """Keys are slices of a fused projection's output; the pool's rows may be padded."""
    wide = torch.zeros(SLOTS, 640, dtype=torch.float16, device=device)
    fused = torch.randn(TOKENS, 1600, generator=generator).half().to(device)
    loc = torch.arange(3, 3 + TOKENS, device=device, dtype=torch.int32)
    set_mla_kv_buffer(wide[:, :576], loc, fused[:, 64:576], fused[:, 1536:], implementation=implementation)
    assert torch.equal(wide[3 : 3 + TOKENS, :512], fused[:, 64:576])
    assert torch.equal(wide[3 : 3 + TOKENS, 512:576], fused[:, 1536:])
    assert not wide[:, 576:].any()


def test_padding_rows_share_the_dummy_slot(implementation: str, device: torch.device) -> None:
    pool = torch.zeros(SLOTS, 6, device=device)
    nope, rope = torch.full((3, 4), 1.0, device=device), torch.full((3, 2), 2.0, device=device)
    set_mla_kv_buffer(pool, torch.tensor([0, 5, 0], device=device), nope, rope, implementation=implementation)
    assert pool[5].tolist() == pool[0].tolist() == [1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kv_buffer": torch.zeros(9, 570)}, ["kv_buffer", "nope_dim + rope_dim = 576 wide", "570 wide"]),
        ({"cache_k_nope": torch.ones(2, 512).half()}, ["cache_k_nope must be float32, as kv_buffer is", "float16"]),
        ({"cache_k_rope": torch.ones(3, 64)}, ["cache_k_rope", "tokens = 2, as loc has", "(3, 64)"]),
        ({"cache_k_nope": torch.ones(2, 2, 512)}, ["cache_k_nope must be 2-dimensional", "(2, 2, 512)"]),
        ({"loc": torch.tensor([1, 9])}, ["loc must be from 0 to 8", "loc[1] = 9"]),
        ({"loc": torch.tensor([4, 4])}, ["loc", "free of duplicates", "slot 4 twice"]),
        ({"loc": torch.tensor([1.0, 2.0])}, ["loc must be int32 or int64", "float32"]),
    ],
)
def test_explains_bad_input_and_changes_nothing(change: dict, words: list[str]) -> None:
    arguments = {
        "kv_buffer": torch.zeros(9, 576),
        "loc": torch.tensor([1, 2]),
        "cache_k_nope": torch.ones(2, 512),
        "cache_k_rope": torch.ones(2, 64),
    }
    arguments |= change
    with pytest.raises(ContractError) as error:
        set_mla_kv_buffer(**arguments)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert not arguments["kv_buffer"].any()
