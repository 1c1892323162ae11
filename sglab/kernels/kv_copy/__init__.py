"""Moving KV rows within the pool: after verification, the accepted drafts' rows come together."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sglab.kernels.kv_copy.contract import MOST_ROWS, CopyArguments, check
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton

__all__ = ["copy_all_layer_kv_cache", "operator"]


def _refuses(arguments: CopyArguments) -> str | None:
    if len(arguments.tgt) > MOST_ROWS:
        return f"it holds {MOST_ROWS} rows at once, and rows copied in turns would see each other's results"
    return needs_triton(arguments)


operator = Operator(
    "copy_all_layer_kv_cache",
    Implementation("triton", "sglab.kernels.kv_copy.triton:run", GPU, _refuses),
    Implementation("reference", "sglab.kernels.kv_copy.reference:run", EVERYWHERE),
)


def copy_all_layer_kv_cache(
    buffers: Sequence[torch.Tensor],
    tgt_loc: torch.Tensor,
    src_loc: torch.Tensor,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """In every buffer, row tgt_loc[i] becomes what row src_loc[i] was before the call, overlaps included.

    After SGLang's copy_all_layer_kv_cache_tiled, which is safe for overlaps within 256 rows alone: it copies more in
    chunks, of which a later one sees what an earlier one wrote. Here more rows are gathered before any is written.

    Args:
        buffers: each layer's K and V (slots, …), contiguous; rows may differ in size.
        tgt_loc, src_loc: (rows,) int32 or int64; no target twice.

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    operator(check(list(buffers), tgt_loc, src_loc, check_values), implementation)
