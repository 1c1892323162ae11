"""Rows moved within their caches, whatever overlaps."""

import pytest
import torch

from sglab.kernels import ContractError, copy_all_layer_kv_cache
from sglab.kernels.registry import last_choice


@pytest.mark.parametrize("rows", [5, 256])
def test_overlapping_rows(rows, implementation, device, generator) -> None:
    """Targets are sources of others: rotated by one, and shuffled."""
    slots = rows + 40
    buffers = [
        torch.randn(slots, 2, 12, generator=generator).half().to(device),
        torch.randint(0, 256, (slots, 150), generator=generator).to(torch.uint8).to(device),
    ]
    order = torch.randperm(slots, generator=generator)[:rows].to(device)
    for source in (order.roll(1), order[torch.randperm(rows, generator=generator).to(device)]):
        wanted = [buffer.clone() for buffer in buffers]
        for buffer, old in zip(wanted, buffers, strict=True):
            buffer[order] = old[source]
        copy_all_layer_kv_cache(buffers, order, source, implementation=implementation)
        assert all(torch.equal(a, b) for a, b in zip(buffers, wanted, strict=True))


def test_more_rows_than_a_program_holds(generator) -> None:
    buffer = torch.arange(300)
    order = torch.arange(300)
    copy_all_layer_kv_cache([buffer], order, order.roll(1))
    assert torch.equal(buffer, order.roll(1)) and last_choice().implementation == "reference"
    with pytest.raises(ValueError, match="it holds 256 rows at once"):
        copy_all_layer_kv_cache([buffer], order, order.roll(1), implementation="triton")


def test_refusals() -> None:
    buffer, loc = torch.zeros(4, 2), torch.tensor([0, 1])
    with pytest.raises(ContractError, match="tgt_loc must be free of duplicates"):
        copy_all_layer_kv_cache([buffer], torch.tensor([1, 1]), loc)
    with pytest.raises(ContractError, match="src_loc must be from 0 to 3"):
        copy_all_layer_kv_cache([buffer], loc, torch.tensor([0, 4]))
    with pytest.raises(ContractError, match=r"buffers\[0\] must be contiguous"):
        copy_all_layer_kv_cache([torch.zeros(4, 4)[:, :2]], loc, loc)
