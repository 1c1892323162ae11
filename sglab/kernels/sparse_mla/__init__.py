"""FlashMLA's sparse attention: MLA in which every query names the tokens that it attends to."""

from __future__ import annotations

import torch

from sglab.kernels.contract import Contract
from sglab.kernels.fp8 import e4m3_triton_refuses
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton
from sglab.kernels.sparse_mla.contract import Keys, SparseArguments, check

__all__ = ["flash_mla_sparse_fwd", "operator", "sparse_decode"]


def _triton_refuses(arguments: SparseArguments) -> str | None:
    return e4m3_triton_refuses(arguments) if arguments.records else needs_triton(arguments)


operator = Operator(
    "sparse_mla",
    Implementation("triton", "sglab.kernels.sparse_mla.triton:run", GPU, _triton_refuses),
    Implementation("torch", "sglab.kernels.sparse_mla.reference:run_float32", EVERYWHERE),
    Implementation("reference", "sglab.kernels.sparse_mla.reference:run", EVERYWHERE),
)


def flash_mla_sparse_fwd(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    sm_scale: float,
    d_v: int = 512,
    attn_sink: torch.Tensor | None = None,
    topk_length: torch.Tensor | None = None,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sparse MLA prefill. After FlashMLA.

    Args:
        q: (queries, heads, 576) bfloat16 or float16.
        kv: (keys, 1, 576), the dtype of q.
        indices: (queries, 1, topk) int32 rows of kv; negative ones and those from `keys` on count for nothing.
        sm_scale: factor of q·k.
        d_v: 512.
        attn_sink: (heads,) float32; the output is multiplied by 1 / (1 + exp(sink − lse)), max_logits and lse are not.
        topk_length: (queries,) int32: only so many of a query's indices count.

    Returns:
        out (queries, heads, 512), max_logits and lse (queries, heads) float32, both natural and scaled. A query without
        a key has out = 0, max_logits = −inf and lse = +inf.

    Raises:
        ContractError: an argument does not fit.
    """
    name = "flash_mla_sparse_fwd"
    contract = Contract(name)
    contract.tensor("kv", kv, "keys 1 576")
    contract.tensor("indices", indices, "queries 1 topk")
    keys = Keys(kv.squeeze(1), indices.squeeze(1), topk_length)
    a = check(name, q, keys, None, sm_scale, d_v, attn_sink, True, check_values)
    operator(a, implementation)
    assert a.top is not None
    return a.out, a.top, a.lse


def sparse_decode(
    q: torch.Tensor,
    keys: Keys,
    extra: Keys | None,
    head_dim_v: int,
    softmax_scale: float | None,
    attn_sink: torch.Tensor | None,
    implementation: str,
    check_values: bool | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """flash_mla_with_kvcache where `indices` are given: see there. keys, extra: its caches, indices and lengths."""
    name = "flash_mla_with_kvcache"
    contract = Contract(name)
    contract.tensor("q", q, "batch query_tokens heads 576")
    rows = _of_tokens(contract, keys, ("k_cache", "indices", "topk_length", ""))
    names = "extra_k_cache", "extra_indices_in_kvcache", "extra_topk_length", "extra_"
    more = None if extra is None else _of_tokens(contract, extra, names)
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    a = check(name, q.flatten(0, 1), rows, more, scale, head_dim_v, attn_sink, False, check_values)
    operator(a, implementation)
    shape = q.shape[:2]
    return a.out.unflatten(0, shape), a.lse.unflatten(0, shape).transpose(1, 2).contiguous()


def _of_tokens(contract: Contract, keys: Keys, names: tuple[str, str, str, str]) -> Keys:
    """Pages as slots, and a row of indices and a length for each query token."""
    cache, indices, lengths, prefix = names
    contract.tensor(cache, keys.kv, f"{prefix}pages {prefix}page_size 1 {prefix}record")
    contract.tensor(indices, keys.indices, f"batch query_tokens {prefix}topk")
    count = keys.lengths
    if count is not None:
        contract.tensor(lengths, count, "batch")
        count = count.repeat_interleave(contract.size("query_tokens"))
    return Keys(keys.kv.flatten(0, 2), keys.indices.flatten(0, 1), count)
