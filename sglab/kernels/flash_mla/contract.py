"""What flash_mla_with_kvcache asks of its arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.kernels.contract import INT32, Contract, reads_values
from sglab.planning.flash_mla import BLOCK_SIZE_N, FIELDS, HEAD_DIM_V
from sglab.planning.mla_dims import HEAD_DIM

PAGE_SIZE = BLOCK_SIZE_N
DTYPES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class FlashMLAArguments:
    """Checked arguments of flash_mla_with_kvcache; out and lse are outputs."""

    q: torch.Tensor
    k_cache: torch.Tensor
    block_table: torch.Tensor
    cache_seqlens: torch.Tensor
    tile_scheduler_metadata: torch.Tensor
    num_splits: torch.Tensor
    softmax_scale: float
    causal: bool
    out: torch.Tensor
    lse: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.q.device


def check_metadata_arguments(cache_seqlens: torch.Tensor, num_heads_per_head_k: int, num_heads_k: int) -> None:
    contract = Contract("get_mla_metadata")
    contract.tensor("cache_seqlens", cache_seqlens, "batch", INT32)
    for name, heads in (("num_heads_per_head_k", num_heads_per_head_k), ("num_heads_k", num_heads_k)):
        contract.require(heads >= 1, name, "at least 1", heads, "Pass the number of heads.")
    if reads_values(None, cache_seqlens.device):
        expected = "not negative"
        contract.elements("cache_seqlens", cache_seqlens >= 0, expected, cache_seqlens, "Lengths count tokens.")


def check(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    block_table: torch.Tensor,
    cache_seqlens: torch.Tensor,
    tile_scheduler_metadata: torch.Tensor,
    num_splits: torch.Tensor,
    head_dim_v: int,
    softmax_scale: float | None,
    causal: bool,
    check_values: bool | None,
) -> FlashMLAArguments:
    contract = Contract("flash_mla_with_kvcache")
    contract.tensor("q", q, f"batch query_tokens heads {HEAD_DIM}", DTYPES)
    contract.tensor("k_cache", k_cache, f"pages page_size 1 {HEAD_DIM}", DTYPES)
    contract.same_dtype(q=q, k_cache=k_cache)
    size = contract.size("page_size")
    contract.require(size == PAGE_SIZE, "k_cache", f"of pages of {PAGE_SIZE} tokens", size, "Use such a pool.")
    contract.require(contract.size("pages") > 0, "k_cache", "of at least one page", "none", "Allocate a pool.")
    contract.tensor("block_table", block_table, "batch width", INT32)
    contract.tensor("cache_seqlens", cache_seqlens, "batch", INT32)
    contract.tensor("tile_scheduler_metadata", tile_scheduler_metadata, f"parts {len(FIELDS)}", INT32)
    contract.fix("batch_and_one", contract.size("batch") + 1, "q")
    contract.tensor("num_splits", num_splits, "batch_and_one", INT32)
    contract.require(head_dim_v == HEAD_DIM_V, "head_dim_v", str(HEAD_DIM_V), head_dim_v, "It is MLA's latent rank.")
    scale = HEAD_DIM**-0.5 if softmax_scale is None else float(softmax_scale)
    positive = scale > 0 and math.isfinite(scale)
    contract.require(positive, "softmax_scale", "positive and finite", scale, "Pass 192 ** -0.5, say.")
    out, lse = new_outputs(q)
    scheduling = (tile_scheduler_metadata, num_splits)
    arguments = FlashMLAArguments(q, k_cache, block_table, cache_seqlens, *scheduling, scale, causal, out, lse)
    if reads_values(check_values, q.device):
        _check_values(contract, arguments)
    return arguments


def new_outputs(q: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for O (batch, query tokens, heads, 512), in the dtype of q, and the LSE (batch, heads, query tokens)."""
    batch, tokens, heads, _ = q.shape
    out = q.new_empty(batch, tokens, heads, HEAD_DIM_V)
    return out, torch.empty(batch, heads, tokens, dtype=torch.float32, device=q.device)


def _check_values(contract: Contract, a: FlashMLAArguments) -> None:
    width, pages, lens, table = a.block_table.shape[1], len(a.k_cache), a.cache_seqlens, a.block_table
    capacity = width * PAGE_SIZE
    expected = f"from 0 to {capacity}, the {width} pages of {PAGE_SIZE} tokens of a block_table row"
    contract.elements("cache_seqlens", (lens >= 0) & (lens <= capacity), expected, lens, "Widen the block table.")
    used = -(-lens.long() // PAGE_SIZE)
    read = torch.arange(width, device=table.device)[None, :] < used[:, None]
    inside = ~read | ((table >= 0) & (table < pages))
    remedy = "Entries past a request's last page may hold anything; these are read."
    contract.elements("block_table", inside, f"from 0 to {pages - 1} where tokens are", table, remedy)
    covered = covered_tokens(a.tile_scheduler_metadata, a.cache_seqlens)
    remedy = "Call get_mla_metadata again whenever a length changes."
    expected = "made for these lengths: its parts must cover every token once"
    contract.elements("tile_scheduler_metadata", covered == lens, f"{expected}, per request", covered, remedy)


def covered_tokens(tile_scheduler_metadata: torch.Tensor, cache_seqlens: torch.Tensor) -> torch.Tensor:
    """How many tokens of each request the parts attend to together."""
    lengths, covered = cache_seqlens.tolist(), [0] * len(cache_seqlens)
    for first, last, first_block, last_block in tile_scheduler_metadata[:, :4].tolist():
        for request in range(max(first, 0), min(last, len(lengths) - 1) + 1):
            begin = first_block * PAGE_SIZE if request == first else 0
            end = min(last_block * PAGE_SIZE, lengths[request]) if request == last else lengths[request]
            covered[request] += max(end - begin, 0)
    return torch.tensor(covered, dtype=cache_seqlens.dtype, device=cache_seqlens.device)
