"""What paged decode asks of its arguments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from sglab.kernels.contract import INT32, Contract, reads_values

HEAD_DIM = 128
GROUPS = (1, 4, 8)
HALF = (torch.float16,)


@dataclass(frozen=True)
class PagedDecodeArguments:
    """Checked arguments of batch_decode_with_paged_kv_cache; out and lse are outputs."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    kv_last_page_len: torch.Tensor
    sm_scale: float
    out: torch.Tensor
    lse: torch.Tensor

    @property
    def device(self) -> torch.device:
        return self.q.device

    @property
    def group(self) -> int:
        """Query heads per KV head."""
        return self.q.shape[1] // self.k.shape[2]


def check(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kv_indptr: torch.Tensor,
    kv_indices: torch.Tensor,
    kv_last_page_len: torch.Tensor,
    sm_scale: float | None,
    out: torch.Tensor | None,
    lse: torch.Tensor | None,
    check_values: bool | None,
) -> PagedDecodeArguments:
    contract = Contract("batch_decode_with_paged_kv_cache")
    contract.tensor("q", q, f"batch heads {HEAD_DIM}", HALF)
    for name, cache in (("paged_k_cache", k), ("paged_v_cache", v)):
        contract.tensor(name, cache, f"pages page_size kv_heads {HEAD_DIM}", HALF)
    heads, kv_heads = contract.size("heads"), contract.size("kv_heads")
    groups = [group * kv_heads for group in GROUPS]
    contract.require(heads in groups, "q", f"of {_either(groups)} heads for {kv_heads} KV heads", heads, "Pad q.")
    contract.tensor("kv_indptr", kv_indptr, "indptr", INT32)
    contract.tensor("kv_indices", kv_indices, "indices", INT32)
    contract.tensor("kv_last_page_len", kv_last_page_len, "batch", INT32)
    batch = contract.size("batch")
    contract.require(len(kv_indptr) == batch + 1, "kv_indptr", f"{batch + 1} long", len(kv_indptr), "Start with a 0.")
    scale = HEAD_DIM**-0.5 if sm_scale is None else sm_scale
    contract.require(scale > 0 and math.isfinite(scale), "sm_scale", "positive and finite", sm_scale, "Or pass None.")
    out = torch.empty_like(q, memory_format=torch.contiguous_format) if out is None else out
    lse = torch.empty(q.shape[:2], dtype=torch.float32, device=q.device) if lse is None else lse
    contract.tensor("out", out, f"batch heads {HEAD_DIM}", HALF)
    contract.tensor("lse", lse, "batch heads", (torch.float32,))
    for name, tensor in (("q", q), ("paged_k_cache", k), ("paged_v_cache", v), ("out", out), ("lse", lse)):
        contract.require(tensor.is_contiguous(), name, "contiguous", f"strides {tensor.stride()}", "Copy it.")
        whole = tensor.data_ptr() % 16 == 0 or name == "lse"
        contract.require(whole, name, "aligned to 16 bytes", hex(tensor.data_ptr()), "Copy it: .clone().")
    if reads_values(check_values, q.device):
        _check_values(contract, k, kv_indptr, kv_indices, kv_last_page_len)
    return PagedDecodeArguments(q, k, v, kv_indptr, kv_indices, kv_last_page_len, scale, out, lse)


def _check_values(
    contract: Contract, k: torch.Tensor, indptr: torch.Tensor, indices: torch.Tensor, last: torch.Tensor
) -> None:
    steps = indptr.diff(prepend=indptr.new_zeros(1))
    contract.elements("kv_indptr", steps >= 0, "non-negative and non-decreasing", indptr, "Use a cumulative sum.")
    total = int(indptr[-1])
    contract.require(total <= len(indices), "kv_indices", f"at least {total} long", len(indices), "See kv_indptr[-1].")
    used = indices[int(indptr[0]) : total]
    inside = (used >= 0) & (used < len(k))
    contract.elements("kv_indices", inside, f"from 0 to {len(k) - 1}, the pages of the cache", used, "Rebuild it.")
    page_size = k.shape[1]
    filled = ((last >= 1) & (last <= page_size)) | (indptr.diff() == 0)
    contract.elements(
        "kv_last_page_len", filled, f"from 1 to page_size = {page_size}", last, "(length − 1) % size + 1."
    )


def _either(values: list[int]) -> str:
    return f"{', '.join(map(str, values[:-1]))} or {values[-1]}"
