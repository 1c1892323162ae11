"""Query rows per CTA of FlashInfer's FA2 prefill.

Source: FlashInfer 0.7.2 `include/flashinfer/utils.cuh` (`FA2DetermineCtaTileQ`).
"""

from __future__ import annotations

from sglab.planning import check

SMEM_OPTIN_BYTES = 232_448
"""Largest shared memory of a block on SM90 and SM100 (cudaDevAttrMaxSharedMemoryPerBlockOptin)."""


def fa2_determine_cta_tile_q(
    avg_packed_qo_len: int,
    head_dim_vo: int,
    head_dim_qk: int = 0,
    *,
    kv_dtype_bytes: int = 2,
    compute_capability_major: int = 9,
    max_smem_per_block_optin: int = SMEM_OPTIN_BYTES,
) -> int:
    """16, 32, 64 or 128 rows, where a row is a (query token, head of the GQA group) pair.

    `avg_packed_qo_len` is query tokens times the group size. `head_dim_qk` 0 means the same as `head_dim_vo`.
    """
    avg_packed_qo_len = check.integer("avg_packed_qo_len", avg_packed_qo_len, minimum=0, maximum=2**62)
    head_dim_vo = check.integer("head_dim_vo", head_dim_vo, minimum=1)
    qk = check.integer("head_dim_qk", head_dim_qk, minimum=0) or head_dim_vo
    if head_dim_vo >= 512:
        return 16 if avg_packed_qo_len <= 32 else 32
    if qk >= 512:
        return 16
    if avg_packed_qo_len > 64 and head_dim_vo < 256:
        return 128
    if compute_capability_major < 8 or avg_packed_qo_len > 16:
        return 64
    one_step = 16 * qk * 2 + (qk + head_dim_vo) * 16 * 4 * kv_dtype_bytes
    return 64 if one_step > max_smem_per_block_optin else 16
