"""Split-KV combine: the partial results of each request's splits become its result.

lse = log2 Σ 2^lse_i, out = Σ 2^(lse_i − lse) · out_i. Unlike merge_states it takes requests with different numbers of
partial results, each request's in slots that are one after the other.
"""

from __future__ import annotations

import torch

from sglab.kernels.combine import cuda
from sglab.kernels.combine.contract import LseBase, check
from sglab.kernels.known_calls import checked_once
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator

__all__ = ["operator", "split_kv_combine"]

operator = Operator(
    "split_kv_combine",
    Implementation("cuda", "sglab.kernels.combine.cuda:run", GPU, cuda.refuses),
    Implementation("reference", "sglab.kernels.combine.reference:run", EVERYWHERE),
)


@checked_once
def split_kv_combine(
    partial_out: torch.Tensor,
    partial_lse: torch.Tensor,
    slot_indptr: torch.Tensor,
    requests: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor | None = None,
    *,
    partial_count: torch.Tensor | None = None,
    lse_base: LseBase = "2",
    max_splits: int | None = None,
    implementation: str = "auto",
) -> torch.Tensor:
    """Combine the partial results of the requests that were split; other rows of `out` and `lse` stay as they are.

    Returns out; a request all of whose splits are empty has 0, and LSE −inf. Raises ContractError.

    Args:
        partial_out: (slots, heads, 512) float32, each divided by its own sum.
        partial_lse: (slots, heads) float32, base 2. Where an LSE is −inf the split has seen no token, and its row may
            hold anything.
        slot_indptr: (entries + 1,) int32, entry i has slots slot_indptr[i] to slot_indptr[i + 1], 1 to 256 of them.
        requests: (entries,) int32, each entry's row of out and lse.
        out: output (batch, heads, 512) float16, bfloat16 or float32.
        lse: output (batch, heads) float32, None if not wanted.
        partial_count: (batch,) int32, how many of its slots a request has filled, 0: none, its result is in out
            already; None: all.
        lse_base: of the output lse, "2" or "e".
        max_splits: the most slots of an entry; None looks into slot_indptr, and so waits for a GPU.
    """
    given = (partial_out, partial_lse, slot_indptr, requests, out, lse, partial_count)
    arguments = check(*given, lse_base, max_splits)
    operator(arguments, implementation)
    return arguments.out
