"""Writing new keys and values into the KV cache."""

from __future__ import annotations

import torch

from sglab.kernels.known_calls import checked_once, next_time
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton
from sglab.kernels.store_cache.contract import check
from sglab.kernels.store_cache.served import StoreServer
from sglab.kernels.store_cache.threads import num_threads

__all__ = ["num_threads", "operator", "store_cache"]

operator = Operator(
    "store_cache",
    Implementation("triton", "sglab.kernels.store_cache.triton:run", GPU, needs_triton),
    Implementation("reference", "sglab.kernels.store_cache.reference:run", EVERYWHERE),
)


@checked_once
def store_cache(
    k: torch.Tensor,
    v: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    indices: torch.Tensor,
    *,
    row_bytes: int = 0,
    v_row_bytes: int = 0,
    num_split: int = 0,
    size_limit: int = 0,
    reserved_skip_index: int = 0,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """Scatter new tokens into a KV cache in one launch: k_cache[indices[t]] = k[t] and v_cache[indices[t]] = v[t].

    Raises ContractError. After SGLang 0.5.23's store_cache. Unlike set_mla_kv_buffer, it writes nothing to the slot
    that padding rows of a CUDA graph share.

    Args:
        k, v: (tokens, width) and (tokens, v_width), or with heads apart; rows may be strided, widths may differ.
        k_cache, v_cache: (slots, width) and (slots, v_width), written in place; the dtypes of k and v.
        indices: (tokens,) int32 or int64 slots. No slot may repeat, the reserved one excepted.
        row_bytes, v_row_bytes: bytes of a row of k and of v; 0: what k and v have.
        num_split: warps that share a token's rows; 0: what num_threads gives, by 32.
        size_limit: slots below it may be written; 0: all of k_cache. Where values are not checked, rows for others are
            dropped (SGLang's kernel stops the GPU there).
        reserved_skip_index: rows that go to this slot are dropped.
        check_values: also check contents (see `sglab.kernels.contract.reads_values`).
    """
    sizes = {"row_bytes": row_bytes, "v_row_bytes": v_row_bytes, "num_split": num_split, "size_limit": size_limit}
    arguments = check(k, v, k_cache, v_cache, indices, **sizes, skip=reserved_skip_index, check_values=check_values)
    operator(arguments, implementation)
    next_time(lambda: StoreServer(arguments, operator.chosen(arguments, implementation), (k, v, k_cache, v_cache)))
