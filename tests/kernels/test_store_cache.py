"""store_cache: keys and values land in their slots, the reserved slot and all others stay as they are."""

import pytest
import torch

from sglab.kernels import ContractError, store_cache
from sglab.kernels.store_cache import num_threads

SLOTS, TOKENS = 40, 7


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float8_e4m3fn])
@pytest.mark.parametrize("shapes", [((4, 64), (4, 64)), ((2, 96), (2, 64)), ((1, 576), (1, 512))])
def test_rows_of_two_widths_land_in_their_slots(
    dtype: torch.dtype,
    shapes: tuple[tuple[int, int], tuple[int, int]],
    implementation: str,
    device: torch.device,
    generator: torch.Generator,
) -> None:
    rows = [torch.randn(TOKENS, *shape, generator=generator).to(device, dtype) for shape in shapes]
    before = [torch.randn(SLOTS, *shape, generator=generator).to(device, dtype) for shape in shapes]
    indices = (torch.randperm(SLOTS - 1, generator=generator)[:TOKENS] + 1).to(device)
    caches = [cache.clone() for cache in before]
    store_cache(*rows, *caches, indices, implementation=implementation)
    for row, cache, old in zip(rows, caches, before, strict=True):
        wanted = old.clone().view(torch.uint8)
        wanted[indices] = row.view(torch.uint8)
        assert torch.equal(cache.view(torch.uint8), wanted)


def test_rows_for_the_reserved_slot_are_dropped(implementation: str, device: torch.device) -> None:
    k, v = torch.ones(3, 8, device=device), torch.ones(3, 4, device=device)
    k_cache, v_cache = torch.zeros(6, 8, device=device), torch.zeros(6, 4, device=device)
    store_cache(k, v, k_cache, v_cache, torch.tensor([0, 5, 0], device=device), implementation=implementation)
    assert k_cache.sum(1).tolist() == [0, 0, 0, 0, 0, 8]
    assert v_cache.sum(1).tolist() == [0, 0, 0, 0, 0, 4]
    indices = torch.tensor([3, 0, 3], device=device)
    store_cache(k, v, k_cache, v_cache, indices, reserved_skip_index=3, implementation=implementation)
    assert k_cache.sum(1).tolist() == [8, 0, 0, 0, 0, 8]


def test_strided_keys_of_a_fused_projection(
    implementation: str, device: torch.device, generator: torch.Generator
) -> None:
    fused = torch.randn(TOKENS, 100, generator=generator).to(device)
    k, v = fused[:, 20:52].unflatten(1, (4, 8)), fused[:, 60:76]
    k_cache, v_cache = torch.zeros(SLOTS, 4, 8, device=device), torch.zeros(SLOTS, 16, device=device)
    indices = torch.arange(5, 5 + TOKENS, device=device, dtype=torch.int32)
    store_cache(k, v, k_cache, v_cache, indices, num_split=2, implementation=implementation)
    assert torch.equal(k_cache[5 : 5 + TOKENS], k)
    assert torch.equal(v_cache[5 : 5 + TOKENS], v)


@pytest.mark.parametrize(
    ("row_bytes", "v_row_bytes", "threads"),
    [(2048, 2048, 128), (1024, 1024, 64), (64, 64, 32), (1152, 1024, 32), (96, 4096, 32)],
)
def test_threads_as_sglang_chooses_them(row_bytes: int, v_row_bytes: int, threads: int) -> None:
    assert num_threads(row_bytes, v_row_bytes) == threads


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"indices": torch.tensor([1, 9])}, ["indices must be from 0 to 8", "indices[1] = 9"]),
        ({"size_limit": 2}, ["indices must be from 0 to 1", "indices[1] = 2"]),
        ({"indices": torch.tensor([4, 4])}, ["free of duplicates", "slot 4 twice"]),
        ({"size_limit": 10}, ["size_limit must be 0 to 9"]),
        ({"row_bytes": 4}, ["row_bytes must be 32, the bytes of a row, or 0"]),
        ({"num_split": 3}, ["num_split must be a power of two"]),
        ({"v": torch.ones(2, 8)}, ["v", "v_width = 4, as v_cache has"]),
        ({"k": torch.ones(2, 8).half()}, ["k must be float32, as k_cache is"]),
        ({"k": torch.ones(2, 4, 2).transpose(1, 2)}, ["k must be of heads side by side"]),
    ],
)
def test_explains_bad_input_and_changes_nothing(change: dict, words: list[str]) -> None:
    arguments = {
        "k": torch.ones(2, 8),
        "v": torch.ones(2, 4),
        "k_cache": torch.zeros(9, 8),
        "v_cache": torch.zeros(9, 4),
        "indices": torch.tensor([1, 2]),
    }
    arguments |= change
    with pytest.raises(ContractError) as error:
        store_cache(**arguments)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert not arguments["k_cache"].any()
    assert not arguments["v_cache"].any()
