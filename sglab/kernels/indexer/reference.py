"""The indexer in float64."""

from __future__ import annotations

import torch

from sglab.kernels.indexer.contract import LogitArguments, QuantArguments


def quant(a: QuantArguments) -> tuple[()]:
    a.scales.copy_(scale_of(a))
    a.out.copy_((a.x.float() / a.scales[..., None]).clamp(-448, 448))
    return ()


def scale_of(a: QuantArguments) -> torch.Tensor:
    scale = a.x.float().abs().amax(-1).clamp(min=1e-4) / 448
    if not a.power_of_two:
        return scale
    mantissa, exponent = torch.frexp(scale)
    return torch.ldexp(torch.ones_like(scale), exponent - (mantissa == 0.5).int())


def logits(a: LogitArguments) -> tuple[()]:
    return _logits(a, torch.float64)


def logits_float32(a: LogitArguments) -> tuple[()]:
    return _logits(a, torch.float32)


def slot_logits(a: LogitArguments) -> tuple[()]:
    """In float32, the rows of a request in one product: a prefill has thousands of them."""
    assert a.block_table is not None
    rows = torch.arange(len(a.q), device=a.device) if a.request_of is None else a.request_of.long()
    requests, counts = rows.unique_consecutive(return_counts=True)
    start, (pages, page_size) = 0, a.k.shape[:2]
    position = torch.arange(a.logits.shape[1], device=a.device)
    for request, count in zip(requests.tolist(), counts.tolist(), strict=True):
        own, start = slice(start, start + count), start + count
        page = a.block_table[request, position // page_size].long().clamp(0, pages - 1)  # past its length anything
        at = page, position % page_size
        scores = (a.q[own].float() @ _keys(a.k, at).float().T).relu()
        a.logits[own] = (a.weights[own, None] @ scores)[:, 0]
        if a.scales is not None:
            a.logits[own] *= a.scales[at]
    return ()


def _keys(k: torch.Tensor, at: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Rows of the pages; those in FP8 are gathered as bytes."""
    return k[at] if k.element_size() > 1 else k.view(torch.uint8)[at].view(k.dtype)


def _logits(a: LogitArguments, dtype: torch.dtype) -> tuple[()]:
    page_size = a.k.shape[1]
    for row, (first, end) in enumerate(zip(a.first.tolist(), a.end.tolist(), strict=True)):
        position = torch.arange(first, max(first, end), device=a.device)
        page = torch.zeros_like(position)
        if a.block_table is not None:
            request = row // a.per_request if a.request_of is None else int(a.request_of[row])
            page = a.block_table[request, position // page_size].long()
        at = (page, position % page_size if a.block_table is not None else position)
        scores = (a.q[row].to(dtype) @ a.k[at].to(dtype).T).relu()
        if a.scales is not None:
            scores *= a.scales[at].to(dtype)
        a.logits[row, position] = (a.weights[row].to(dtype) @ scores).float()
    return ()
