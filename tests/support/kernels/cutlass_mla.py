"""Calls of cutlass_mla_decode with their reference in float64."""

import torch

from sglab.kernels import cutlass_mla_get_workspace_size
from tests.support.kernels.paged import paged_slots

SCALE = 192**-0.5


def call(lens, heads, page_size, splits, device, generator, dtype=torch.float16) -> dict:
    """Arguments of one call. Pages that no request reads are NaN; rows past a request's end are finite."""
    slots, pool = paged_slots(lens, page_size, generator)
    per_tile = 128 // page_size
    width = max(-(-max(lens) // 128), 1) * per_tile
    table = torch.full((len(lens), width), -1, dtype=torch.int32)
    cache = torch.full((pool // page_size, page_size, 576), torch.nan)
    filler = pool // page_size - 1
    cache[filler] = 1e4  # where padding entries point: finite, and it must not count
    for row, (own, length) in enumerate(zip(slots, lens, strict=True)):
        pages = own[::page_size] // page_size
        table[row, : len(pages)] = pages
        table[row, len(pages) : -(-length // 128) * per_tile] = filler
        cache[pages] = 1e4
        cache[pages[torch.arange(length) // page_size], own % page_size] = torch.randn(length, 576, generator=generator)
    size = cutlass_mla_get_workspace_size(width * page_size, len(lens), num_kv_splits=splits)
    return {
        "q_nope": torch.randn(len(lens), heads, 512, generator=generator).to(device, dtype),
        "q_pe": torch.randn(len(lens), heads, 64, generator=generator).to(device, dtype),
        "kv_c_and_k_pe_cache": cache.to(device, dtype),
        "seq_lens": torch.tensor(lens, dtype=torch.int32, device=device),
        "page_table": table.to(device),
        "workspace": torch.full((size,), 255, dtype=torch.uint8, device=device),
        "sm_scale": SCALE,
        "num_kv_splits": splits,
    }


def attention(arguments: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """O and natural LSE in float64, written without the operators' own reference."""
    outputs, lses = [], []
    page_size = arguments["kv_c_and_k_pe_cache"].shape[1]
    for request, length in enumerate(arguments["seq_lens"].tolist()):
        pages = arguments["page_table"][request, : -(-length // page_size)].long()
        kv = arguments["kv_c_and_k_pe_cache"][pages].flatten(0, 1)[:length].double()
        q = torch.cat([arguments["q_nope"][request], arguments["q_pe"][request]], dim=-1).double()
        logits = q @ kv.T * SCALE
        outputs.append(logits.softmax(-1) @ kv[:, :512])
        lses.append(logits.logsumexp(-1))
    return torch.stack(outputs), torch.stack(lses)
