"""Sparse attention's metadata, made once and copied to every draft step's backend."""

import dataclasses

import pytest
import torch

from sglab.kernels import ContractError
from sglab.kernels.dsa_metadata import DsaMetadata, fused_metadata_copy, precompute_dsa_metadata, seqlens_expand


def test_expanded_lengths_by_hand() -> None:
    assert seqlens_expand(torch.tensor([10, 5]), 3).tolist() == [8, 9, 10, 3, 4, 5]


def test_decode_and_verify(device, generator) -> None:
    pages = torch.randperm(6, generator=generator)
    table = torch.zeros(3, 8, dtype=torch.int32)
    table[2], table[0] = pages[:2].repeat_interleave(4) * 4 + torch.arange(8) % 4, 4 * pages[2] + torch.arange(8) % 4
    rows, lens = torch.tensor([2, 0]).to(device), torch.tensor([7, 3]).to(device)
    one = precompute_dsa_metadata(table.to(device), rows, lens, 7, dsa_index_topk=5, page_size=4)
    assert one.cu_seqlens_k.tolist() == [0, 7, 10] and one.dsa_cache_seqlens.tolist() == [5, 3]
    assert one.dsa_cu_seqlens_k.tolist() == [0, 5, 8]
    assert torch.equal(one.page_table_1.cpu(), table[[2, 0], :7])
    assert one.real_page_table[0].tolist() == pages[:2].tolist() and one.real_page_table[1, 0] == pages[2]
    drafts = precompute_dsa_metadata(table.to(device), rows, lens, 7, dsa_index_topk=5, page_size=4, new=2)
    assert drafts.seqlens_expanded.tolist() == [6, 7, 2, 3] and drafts.dsa_cache_seqlens.tolist() == [5, 5, 2, 3]


def test_copies_equal_the_source(device) -> None:
    """N copies into larger buffers, at their old addresses."""
    table = torch.arange(32, dtype=torch.int32, device=device).view(2, 16)
    rows, lens = torch.tensor([1, 0], device=device), torch.tensor([9, 4], device=device)
    source = precompute_dsa_metadata(table, rows, lens, 9, page_size=4)
    targets = []
    for _ in range(3):
        wide = {each.name: getattr(source, each.name) for each in dataclasses.fields(source)}
        targets.append(
            DsaMetadata(**{k: torch.full([n + 2 for n in v.shape], -7).int().to(device) for k, v in wide.items()})
        )
    addresses = [target.page_table_1.data_ptr() for target in targets]
    fused_metadata_copy(source, *targets)
    assert [target.page_table_1.data_ptr() for target in targets] == addresses
    for target in targets:
        for each in dataclasses.fields(source):
            new, old = getattr(source, each.name), getattr(target, each.name)
            front = tuple(slice(size) for size in new.shape)
            assert torch.equal(old[front], new) and (old == -7).sum() == old.numel() - new.numel()
    with pytest.raises(ContractError, match="page_table_1 must be at least of shape"):
        fused_metadata_copy(source, dataclasses.replace(targets[0], page_table_1=table[:1]))
    with pytest.raises(ContractError, match="seq_lens must be from 2 to max_len 9"):
        precompute_dsa_metadata(table.cpu(), rows.cpu(), torch.tensor([9, 1]), 9, new=2)
