"""Shared memory of FlashInfer's FA2 prefill, against what nvcc says of its own struct."""

from __future__ import annotations

import pytest

from sglab.planning import fa2_kv_tile, shared_storage_qkvo

SIZEOF = {  # (cta_tile_q, num_mma_kv, head_dim_qk, head_dim_vo): printed by nvcc 13.0 of FlashInfer 0.7.2's header
    (16, 1, 64, 64): 18_432,
    (16, 8, 64, 64): 133_120,
    (16, 1, 128, 128): 36_864,
    (16, 2, 128, 128): 69_632,
    (16, 2, 192, 128): 88_064,
    (16, 1, 256, 256): 73_728,
    (64, 8, 64, 64): 40_960,
    (64, 1, 128, 128): 24_576,
    (64, 4, 128, 128): 49_152,
    (64, 2, 256, 256): 65_536,
    (128, 4, 64, 64): 32_768,
    (128, 4, 128, 128): 65_536,
    (128, 2, 192, 128): 69_632,
}


@pytest.mark.parametrize("shape", SIZEOF, ids=str)
def test_the_struct_is_as_large_as_the_compiler_says(shape: tuple[int, int, int, int]) -> None:
    q, num_mma_kv, qk, vo = shape
    warps_kv = 4 if q == 16 else 1
    assert shared_storage_qkvo(q, 16 * num_mma_kv * warps_kv, qk, vo, warps_kv).total == SIZEOF[shape]


def test_the_kv_tile_is_what_two_ctas_leave_room_for() -> None:
    """233,472 bytes per SM; a step of 16 keys takes 8,192 bytes of K and V of 128 dims, four times that for 4 warps."""
    large = fa2_kv_tile(128, 128, 128)
    assert (large.cta_tile_kv, large.ctas_per_sm) == (64, 2)  # registers decide
    decode = fa2_kv_tile(16, 128, 128)
    assert (decode.num_mma_kv, decode.cta_tile_kv, decode.storage.total) == (2, 128, 69_632)  # 3 would fit; 2 exists
    small = fa2_kv_tile(16, 128, 128, max_smem_per_sm=102_400, max_smem_per_block_optin=101_376)  # SM86
    assert (small.num_mma_kv, small.ctas_per_sm) == (1, 2)


def test_four_warps_do_not_share_the_keys_of_a_large_tile() -> None:
    """Their exchange of o alone would take 256 KiB, more than an SM has."""
    assert shared_storage_qkvo(128, 64, 128, 128, 4).cta_sync_o_smem == 262_144
    assert fa2_kv_tile(128, 128, 128).storage.cta_sync_o_smem == 16


def test_what_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="cta_tile_q: expected 16, 64 or 128, got 32"):
        fa2_kv_tile(32, 128, 128)
    with pytest.raises(ValueError, match="head_dim_vo: expected an integer from 16 to 256, got 512"):
        shared_storage_qkvo(16, 64, 128, 512, 4)
    with pytest.raises(ValueError, match="max_smem_per_block_optin: expected 73728 or more"):
        fa2_kv_tile(16, 256, 256, max_smem_per_block_optin=65_536)
