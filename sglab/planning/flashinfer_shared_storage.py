"""Shared memory of FlashInfer's FA2 prefill with 16-bit Q, K, V and O, and the KV tile that it leaves room for.

Source: FlashInfer 0.7.2 `include/flashinfer/attention/prefill.cuh` (`SharedStorageQKVO` and the launchers' choice of
`NUM_MMA_KV`). One-byte KV and head dims above 256 take other buffers and are not covered.
"""

from __future__ import annotations

from dataclasses import dataclass

from sglab.planning import check
from sglab.planning.cta_tile_q import SMEM_OPTIN_BYTES

SMEM_PER_SM_BYTES = 233_472
"""Shared memory of an SM90 or SM100 SM (cudaDevAttrMaxSharedMemoryPerMultiprocessor)."""
ELEMENT, FLOAT = 2, 4
MMA = 16
"""Rows of Q, and keys, of one step of mma.m16n8k16."""
WARPS = 4


@dataclass(frozen=True)
class SharedStorageQKVO:
    """Bytes of the three faces of one union: what the loop reads, what warps exchange, how O leaves.

    Attributes:
        q_smem, k_smem, v_smem: a CTA's tiles.
        smem_o: O on its way out.
        cta_sync_o_smem, cta_sync_md_smem: states (o; m and d) of warps that share a tile's keys, one element where none
            do.
    """

    q_smem: int
    k_smem: int
    v_smem: int
    cta_sync_o_smem: int
    cta_sync_md_smem: int
    smem_o: int

    @property
    def total(self) -> int:
        """What the struct takes: its largest face."""
        loop, exchange = self.q_smem + self.k_smem + self.v_smem, self.cta_sync_o_smem + self.cta_sync_md_smem
        return max(loop, exchange, self.smem_o)


def shared_storage_qkvo(
    cta_tile_q: int, cta_tile_kv: int, head_dim_qk: int, head_dim_vo: int, num_warps_kv: int
) -> SharedStorageQKVO:
    """The shared-memory union of FlashInfer's FA2 prefill, member by member.

    Args:
        num_warps_kv: how many of the 4 warps share a tile's keys: 4 for a cta_tile_q of 16, else 1.
    """
    q = check.integer("cta_tile_q", cta_tile_q, minimum=MMA)
    kv = check.integer("cta_tile_kv", cta_tile_kv, minimum=MMA)
    qk = check.integer("head_dim_qk", head_dim_qk, minimum=MMA, maximum=256)
    vo = check.integer("head_dim_vo", head_dim_vo, minimum=MMA, maximum=256)
    warps = check.integer("num_warps_kv", num_warps_kv, minimum=1, maximum=WARPS)
    alone = warps == 1
    return SharedStorageQKVO(
        q_smem=q * qk * ELEMENT,
        k_smem=kv * qk * ELEMENT,
        v_smem=kv * vo * ELEMENT,
        cta_sync_o_smem=16 if alone else warps * q * vo * FLOAT,  # float[1], and what follows is aligned to 16 bytes
        cta_sync_md_smem=16 if alone else warps * q * 2 * FLOAT,
        smem_o=q * vo * ELEMENT,
    )


@dataclass(frozen=True)
class KvTile:
    """num_mma_kv: steps of 16 keys per warp; cta_tile_kv: keys of a tile; ctas_per_sm: that memory was cut for."""

    num_mma_kv: int
    cta_tile_kv: int
    ctas_per_sm: int
    storage: SharedStorageQKVO


def fa2_kv_tile(
    cta_tile_q: int,
    head_dim_qk: int,
    head_dim_vo: int,
    *,
    max_smem_per_sm: int = SMEM_PER_SM_BYTES,
    max_smem_per_block_optin: int = SMEM_OPTIN_BYTES,
) -> KvTile:
    """The largest KV tile that shared memory and registers allow, with two CTAs per SM where two fit at all.

    Without RoPE in the kernel. Raises ValueError: cta_tile_q is not 16, 64 or 128, or nothing fits.
    """
    q = check.integer("cta_tile_q", cta_tile_q, minimum=MMA)
    if q not in (16, 64, 128):
        raise check.fail("cta_tile_q", "16, 64 or 128", q, "see fa2_determine_cta_tile_q")
    warps_kv = WARPS if q == MMA else 1
    smallest = shared_storage_qkvo(q, MMA * warps_kv, head_dim_qk, head_dim_vo, warps_kv)
    per_step = smallest.k_smem + smallest.v_smem
    ctas = 2 if max_smem_per_sm >= 2 * (smallest.q_smem + per_step) else 1
    room = min(max_smem_per_sm // ctas, max_smem_per_block_optin) - smallest.q_smem
    in_registers = 4 if q == 128 else 8
    steps = min(max(0, room) // per_step, in_registers)
    if steps < 1:
        needed = smallest.q_smem + per_step
        raise check.fail("max_smem_per_block_optin", f"{needed} or more", max_smem_per_block_optin, "shrink a head dim")
    num_mma_kv = 1 << steps.bit_length() - 1
    keys = num_mma_kv * MMA * warps_kv
    return KvTile(num_mma_kv, keys, ctas, shared_storage_qkvo(q, keys, head_dim_qk, head_dim_vo, warps_kv))
