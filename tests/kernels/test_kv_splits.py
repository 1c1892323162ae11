"""get_num_kv_splits: golden values, and the kernel against the planner."""

import pytest
import torch

from sglab.kernels import ContractError, get_num_kv_splits


def splits(lens: list[int], heads: tuple[int, int], implementation: str, device, cores: int = 132, group: int = 1):
    out = torch.full((len(lens) * group,), -1, dtype=torch.int32, device=device)
    get_num_kv_splits(out, torch.tensor(lens, device=device), *heads, 8, cores, implementation=implementation)
    return out.tolist()


@pytest.mark.parametrize(
    ("lens", "heads", "wanted"),
    [
        ([1024, 512, 2048, 256], (32, 8), [4, 2, 8, 1]),
        ([100, 5000, 200, 8000], (32, 8), [1, 5, 1, 8]),
        ([4096] * 4, (32, 8), [8] * 4),
        ([64] * 32, (32, 32), [1] * 32),
    ],
)
def test_golden_values(lens, heads, wanted, implementation, device) -> None:
    assert splits(lens, heads, implementation, device) == wanted


def test_the_kernel_computes_what_the_planner_plans(device, generator) -> None:
    for heads in ((32, 8), (16, 1), (128, 1), (8, 8)):
        for batch in (1, 3, 40, 300):
            lens = (torch.rand(batch, generator=generator) * 9000 + 1).int().tolist()
            assert splits(lens, heads, "triton", device) == splits(lens, heads, "reference", device), (heads, lens)


def test_draft_tokens_get_their_requests_value(implementation, device) -> None:
    once = splits([100, 5000], (32, 8), implementation, device, group=1)
    thrice = splits([100, 5000], (32, 8), implementation, device, group=3)
    assert len(thrice) == 6
    assert len(set(thrice[:3])) == len(set(thrice[3:])) == 1
    assert max(thrice) <= max(once), "more tokens fill the device sooner"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seq_lens": torch.tensor([5, 0])}, ["seq_lens must be 1 or more", "seq_lens[1] = 0", "padded rows"]),
        ({"seq_lens": torch.tensor([]).int()}, ["seq_lens must be of one request or more"]),
        ({"num_kv_splits": torch.zeros(3).int()}, ["num_kv_splits", "multiple of the batch, 2", "length 3"]),
        ({"num_kv_splits": torch.zeros(2)}, ["num_kv_splits must be int32"]),
        ({"num_head": 12}, ["num_head must be a positive multiple of num_kv_head = 8", "12"]),
        ({"device_core_count": 0}, ["device_core_count must be 1 or more"]),
    ],
)
def test_explains_bad_input_and_changes_nothing(change: dict, words: list[str]) -> None:
    arguments = {
        "num_kv_splits": torch.zeros(2, dtype=torch.int32),
        "seq_lens": torch.tensor([5, 6]),
        "num_head": 32,
        "num_kv_head": 8,
        "max_kv_splits": 8,
        "device_core_count": 132,
    }
    arguments |= change
    with pytest.raises(ContractError) as error:
        get_num_kv_splits(**arguments)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert not arguments["num_kv_splits"].any()
