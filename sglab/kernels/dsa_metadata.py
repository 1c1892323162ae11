"""What every layer of sparse attention reads in a pass, made once: for multi-token prediction once for all draft steps.

Source: SGLang `layers/attention/dsa_backend.py` and `dsa/dsa_backend_mtp_precompute.py`. Nothing here waits for a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from sglab.kernels.contract import INDEX, INT32, Contract


@dataclass(frozen=True)
class DsaMetadata:
    """A pass's index arrays, all int32.

    Attributes:
        cache_seqlens: (batch,) keys per request.
        cu_seqlens_k: (batch + 1,) their cumulative sum.
        page_table_1: (batch, max_len) slots.
        real_page_table: (batch, ⌈max_len / page_size⌉) pages.
        seqlens_expanded: (rows,) keys that each query token sees.
        dsa_cache_seqlens: (rows,) of these those that the indexer lets through: at most top-k.
        dsa_cu_seqlens_k: (rows + 1,) their cumulative sum.
    """

    cache_seqlens: torch.Tensor
    cu_seqlens_k: torch.Tensor
    page_table_1: torch.Tensor
    real_page_table: torch.Tensor
    seqlens_expanded: torch.Tensor
    dsa_cache_seqlens: torch.Tensor
    dsa_cu_seqlens_k: torch.Tensor


def compute_dsa_seqlens(seqlens: torch.Tensor, dsa_index_topk: int) -> torch.Tensor:
    """How many keys a query attends to: all, but at most top-k."""
    return seqlens.clamp(max=dsa_index_topk)


def seqlens_expand(seq_lens: torch.Tensor, new: int) -> torch.Tensor:
    """Keys per query token where each request has `new` of them: 10 keys with 3 new give 8, 9, 10."""
    hidden = torch.arange(new - 1, -1, -1, dtype=seq_lens.dtype, device=seq_lens.device)
    return (seq_lens[:, None] - hidden).flatten()


def precompute_dsa_metadata(
    req_to_token: torch.Tensor,
    req_pool_indices: torch.Tensor,
    seq_lens: torch.Tensor,
    max_len: int,
    dsa_index_topk: int = 2048,
    page_size: int = 64,
    new: int = 1,
) -> DsaMetadata:
    """The metadata of a decode pass, or with `new` > 1 of a verification or draft extend.

    Args:
        req_to_token: (requests, context) int32 slots.
        req_pool_indices: (batch,) int32 or int64.
        seq_lens: (batch,) int32 or int64, the new tokens included.
        max_len: columns of page_table_1, at least the longest request.

    Raises:
        ContractError: an argument does not fit.
    """
    contract = Contract("precompute_dsa_metadata")
    contract.tensor("req_to_token", req_to_token, "requests context", INT32)
    contract.tensor("req_pool_indices", req_pool_indices, "batch", INDEX)
    contract.tensor("seq_lens", seq_lens, "batch", INDEX)
    expected = f"from 1 to {req_to_token.shape[1]}, the width of req_to_token"
    contract.require(1 <= max_len <= req_to_token.shape[1], "max_len", expected, max_len, "Pass max(seq_lens).")
    contract.require(new >= 1, "new", "at least 1", new, "Pass num_draft_tokens.")
    if seq_lens.device.type == "cpu":
        fits = (seq_lens >= new) & (seq_lens <= max_len)
        contract.elements("seq_lens", fits, f"from {new} to max_len {max_len}", seq_lens, "Lengths count new tokens.")
    lens = seq_lens.int()
    slots = req_to_token[req_pool_indices.long(), :max_len]
    expanded = seqlens_expand(lens, new)
    chosen = compute_dsa_seqlens(expanded, dsa_index_topk)
    return DsaMetadata(lens, _cu(lens), slots, slots[:, ::page_size] // page_size, expanded, chosen, _cu(chosen))


def fused_metadata_copy(source: DsaMetadata, *targets: DsaMetadata) -> None:
    """Copy metadata into those of several backends, in place, so that graphs which hold them see it.

    A target's tensors may be larger: a source's rows and columns go to the front, the rest stays.

    Raises:
        ContractError: a target is too small; nothing was written.
    """
    contract, pairs = Contract("fused_metadata_copy"), []
    for target in targets:
        for each in fields(DsaMetadata):
            new, old = getattr(source, each.name), getattr(target, each.name)
            fits = old.ndim == new.ndim and all(a >= b for a, b in zip(old.shape, new.shape, strict=True))
            expected = f"at least of shape {tuple(new.shape)}"
            contract.require(fits, each.name, expected, tuple(old.shape), "Allocate it for the largest batch.")
            pairs.append((old[tuple(slice(size) for size in new.shape)], new))
    torch._foreach_copy_([old for old, _ in pairs], [new for _, new in pairs])


def _cu(lens: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(lens.cumsum(0, dtype=torch.int32), (1, 0))
