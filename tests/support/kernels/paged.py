"""Requests whose pages lie scattered over a pool, as after hours of serving."""

import torch


def paged_slots(lens: list[int], page_size: int, generator: torch.Generator) -> tuple[list[torch.Tensor], int]:
    """Slots of every request, page-aligned, pages in random order with gaps, page 0 unused; and the pool's size."""
    pages = [-(-length // page_size) for length in lens]
    total = sum(pages) + 3
    order = torch.randperm(total - 1, generator=generator)[: sum(pages)] + 1
    slots = []
    for own, length in zip(order.split(pages), lens, strict=True):
        position = torch.arange(length)
        slots.append(own[position // page_size] * page_size + position % page_size)
    return slots, total * page_size


def csr(slots: list[torch.Tensor], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """kv_indptr and kv_indices of these requests."""
    lens = torch.tensor([len(each) for each in slots])
    indptr = torch.cat([torch.zeros(1, dtype=torch.int64), lens.cumsum(0)])
    return indptr.int().to(device), torch.cat(slots).to(device)
