"""Where a query tile's KV ends under a causal mask.

Source: FlashInfer 0.7.2 `include/flashinfer/attention/scheduler.cuh` (`packed_causal_kv_end`).
"""

from __future__ import annotations

import numpy as np

from sglab.planning.arith import ceil_div
from sglab.planning.check import Int64Array


def packed_causal_kv_end(
    qo_len: Int64Array, kv_len: Int64Array, qo_tile_idx: Int64Array, tile_q: int, num_qo_tiles: Int64Array, group: int
) -> Int64Array:
    """KV tokens that a tile of `tile_q` packed rows sees: queries are right-aligned; the last tile sees everything."""
    end = kv_len - qo_len + ceil_div((qo_tile_idx + 1) * tile_q, group)
    return np.where(qo_tile_idx + 1 == num_qo_tiles, kv_len, np.maximum(np.minimum(end, kv_len), 0))
