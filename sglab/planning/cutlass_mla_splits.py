"""Which tokens each KV split of the SM100 MLA decode kernel covers.

Source: CUTLASS 4.7 `kernel/sm100_fmha_mla_tma_warpspecialized.hpp` (`load_page_table`, `compute`) and
`kernel/sm100_fmha_mla_reduction.hpp`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sglab.planning import check
from sglab.planning.arith import ceil_div
from sglab.planning.check import Int64Array
from sglab.planning.set_split_kv import TILE_S


@dataclass(frozen=True)
class SplitRanges:
    """Token ranges [token_start, token_end) of shape (batch, split_kv), empty where a split has nothing to do.

    `local_split_kv` (batch,) counts the splits that do work; 1 means O is written directly, without the reduction.
    """

    token_start: Int64Array
    token_end: Int64Array
    local_split_kv: Int64Array


def split_ranges(seq_lens: ArrayLike, split_kv: int, ptr_split_kv: ArrayLike | None = None) -> SplitRanges:
    """Tiles are dealt out by rounding up, so the last splits of a short request stay empty.

    `ptr_split_kv` optionally limits each request to its own number of splits (<= split_kv); SGLang and FlashInfer
    pass null. Zero-length requests get no split at all: the kernel leaves their O unwritten.
    """
    tokens = check.lengths("seq_lens", seq_lens)
    split_kv = check.integer("split_kv", split_kv, minimum=1)
    wanted = np.full(tokens.size, split_kv)
    if ptr_split_kv is not None:
        wanted = check.lengths("ptr_split_kv", ptr_split_kv, minimum=1)
        check.same_length("ptr_split_kv", wanted, "seq_lens", tokens.size)
        if np.any(wanted > split_kv):
            remedy = "raise split_kv, the launch's grid size"
            raise check.fail("ptr_split_kv", f"entries up to split_kv={split_kv}", wanted.max(), remedy)
    k_tile_total = ceil_div(tokens, TILE_S)
    k_tile_per_cta = ceil_div(k_tile_total, wanted)
    local = np.where(tokens > 0, ceil_div(k_tile_total, np.maximum(k_tile_per_cta, 1)), 0)
    start = np.arange(split_kv)[None, :] * (k_tile_per_cta * TILE_S)[:, None]
    end = np.minimum(start + (k_tile_per_cta * TILE_S)[:, None], tokens[:, None])
    return SplitRanges(np.minimum(start, tokens[:, None]), end, local)
