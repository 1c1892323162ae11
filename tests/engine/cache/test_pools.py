"""ReqToTokenPool and the KV pools: shapes, writes, and what they refuse."""

import os
import sys
from pathlib import Path

import pytest
import torch

from sglab.engine import (
    BadArgumentError,
    MHATokenToKVPool,
    MLARecordTokenToKVPool,
    MLATokenToKVPool,
    NSARecordTokenToKVPool,
    NSATokenToKVPool,
    RadixAttention,
    Req,
    ReqToTokenPool,
)
from sglab.kernels import get_index_k_scale_buffer

MLA = RadixAttention(tp_q_head_num=16, tp_k_head_num=1, head_dim=576, scaling=192**-0.5, v_head_dim=512)


def test_rows_are_given_in_order_and_come_back_at_the_end() -> None:
    pool = ReqToTokenPool(3, 8)
    a, b, c, d = (Req(name, [1]) for name in "abcd")
    assert pool.alloc([a, b]) == [0, 1]
    assert pool.alloc([c, d]) is None and c.req_pool_idx is None
    pool.free(a)
    assert a.req_pool_idx is None and pool.free_slots == [2, 0]
    assert pool.alloc([b, c]) == [1, 2]
    assert pool.req_to_token.shape == (3, 8) and pool.req_to_token.dtype == torch.int32


def test_a_row_is_freed_once() -> None:
    pool = ReqToTokenPool(1, 8)
    req = Req("a", [1])
    pool.alloc([req])
    pool.free(req)
    with pytest.raises(ValueError, match="owns no row"):
        pool.free(req)


def test_mla_rows_are_512_latent_and_64_rope_side_by_side() -> None:
    pool = MLATokenToKVPool(256, 64, torch.bfloat16, 512, 64, layer_num=2)
    assert pool.get_key_buffer(1).shape == (256 + 64, 1, 576)
    loc = torch.tensor([64, 200, 65])
    latent, rope = torch.randn(3, 1, 512).bfloat16(), torch.randn(3, 1, 64).bfloat16()
    pool.set_mla_kv_buffer(MLA, loc, latent, rope)
    assert torch.equal(pool.get_key_buffer(0)[loc], torch.cat((latent, rope), -1))
    assert torch.equal(pool.get_value_buffer(0)[loc], latent)
    assert pool.get_key_buffer(0).count_nonzero() == latent.count_nonzero() + rope.count_nonzero()
    assert not pool.get_key_buffer(1).any()
    again = pool.get_mla_kv_buffer(MLA, loc, torch.float32)
    assert torch.equal(again[0], latent.float()) and torch.equal(again[1], rope.float())
    assert pool.get_kv_size_bytes() == 2 * 320 * 576 * 2


def test_the_value_buffer_is_a_view_of_the_key_buffer() -> None:
    pool = MLATokenToKVPool(128, 128, torch.float16, 512, 64, layer_num=1)
    assert pool.get_value_buffer(0).data_ptr() == pool.get_key_buffer(0).data_ptr()


def test_mha_keeps_k_and_v_apart_with_their_own_dims() -> None:
    pool = MHATokenToKVPool(32, 1, torch.float16, head_num=2, head_dim=24, v_head_dim=16, layer_num=1)
    layer = RadixAttention(8, 2, 24, 1.0, v_head_dim=16)
    loc, k, v = torch.tensor([1, 32]), torch.randn(2, 2, 24).half(), torch.randn(2, 2, 16).half()
    pool.set_kv_buffer(layer, loc, k, v)
    assert torch.equal(pool.get_key_buffer(0)[loc], k) and torch.equal(pool.get_value_buffer(0)[loc], v)
    assert pool.get_key_buffer(0).shape == (33, 2, 24)


def test_two_tokens_never_share_a_slot_but_padded_rows_share_the_dummy_page() -> None:
    mha = MHATokenToKVPool(8, 4, torch.float32, 2, 3, 1)
    mla = MLATokenToKVPool(8, 4, torch.float32, 4, 2, 1)
    rows, row = torch.ones(4, 2, 3), torch.ones(4, 1, 6)
    loc = torch.tensor([0, 0, 3, 3])
    mha.set_kv_buffer(RadixAttention(2, 2, 3, 1.0), loc, rows, rows)
    mla.set_kv_buffer(RadixAttention(2, 1, 6, 1.0, v_head_dim=4), loc, row, row)
    for pool, layer, each in ((mha, RadixAttention(2, 2, 3, 1.0), rows), (mla, RadixAttention(2, 1, 6, 1.0), row)):
        before = pool.get_key_buffer(0).clone()
        with pytest.raises(BadArgumentError, match="loc: expected each slot once, got slot 7 twice"):
            pool.set_kv_buffer(layer, torch.tensor([7, 0, 5, 7]), each * 2, each * 2)
        assert torch.equal(pool.get_key_buffer(0), before)


def test_slots_on_a_gpu_are_not_read_by_the_host() -> None:
    """Tensors on "meta" have no values: whatever read one would raise. A write must not wait for the device."""
    pool = MHATokenToKVPool(8, 4, torch.float32, 2, 3, 1, device="meta")
    rows = torch.ones(2, 2, 3, device="meta")
    pool.set_kv_buffer(RadixAttention(2, 2, 3, 1.0), torch.tensor([4, 5], device="meta"), rows, rows)


def test_fp8_pools_divide_by_the_scale_and_leave_the_input_alone() -> None:
    pool = MHATokenToKVPool(4, 1, torch.float8_e4m3fn, head_num=1, head_dim=16, layer_num=1)
    k = torch.randn(1, 1, 16)
    kept = k.clone()
    pool.set_kv_buffer(RadixAttention(1, 1, 16, 1.0), torch.tensor([2]), k, k, k_scale=2.0, v_scale=4.0)
    assert torch.equal(pool.get_key_buffer(0)[2].float(), (kept[0] / 2).to(torch.float8_e4m3fn).float())
    assert torch.equal(pool.get_value_buffer(0)[2].float(), (kept[0] / 4).to(torch.float8_e4m3fn).float())
    assert torch.equal(k, kept)


@pytest.mark.parametrize(
    ("loc", "rows", "message"),
    [
        ([1, 2], (2, 1, 512), r"cache_k: expected shape \(2, 1, 576\), got \(2, 1, 512\)"),
        ([1, 2], (3, 1, 576), r"cache_k: expected shape \(2, 1, 576\)"),
        ([1, 256], (2, 1, 576), r"loc: expected slots 0\.\.255 of MLATokenToKVPool, got 256"),
        ([-1, 3], (2, 1, 576), r"loc: .*got -1"),
    ],
)
def test_a_refused_write_names_the_argument_and_writes_nothing(
    loc: list[int], rows: tuple[int, ...], message: str
) -> None:
    pool = MLATokenToKVPool(128, 128, torch.float16, 512, 64, layer_num=1)
    with pytest.raises(BadArgumentError, match=message):
        pool.set_kv_buffer(MLA, torch.tensor(loc), torch.ones(rows).half(), torch.ones(rows).half())
    assert not pool.get_key_buffer(0).any()


def test_a_write_takes_integer_slots_and_floating_point_rows() -> None:
    pool = MLATokenToKVPool(128, 128, torch.float16, 512, 64, layer_num=1)
    slots, rows = torch.tensor([3]), torch.ones(1, 1, 576)
    with pytest.raises(BadArgumentError, match=r"loc: expected an int32 or int64 tensor, got torch\.float32"):
        pool.set_kv_buffer(MLA, slots.float(), rows, rows)
    with pytest.raises(BadArgumentError, match=r"cache_k: expected floating-point rows, got torch\.int32"):
        pool.set_kv_buffer(MLA, slots, rows.int(), rows)
    with pytest.raises(BadArgumentError, match="max_context_len: expected an integer of at least 1, got 0"):
        ReqToTokenPool(4, 0)
    assert not pool.get_key_buffer(0).any()


def test_a_page_size_must_divide_the_pool_and_a_layer_must_exist() -> None:
    with pytest.raises(BadArgumentError, match="size: expected a positive multiple of page_size 128, got 200"):
        MLATokenToKVPool(200, 128, torch.float16, 512, 64, layer_num=1)
    with pytest.raises(BadArgumentError, match=r"layer_id: expected 3\.\.4, got 2"):
        MLATokenToKVPool(128, 128, torch.float16, 512, 64, layer_num=2, start_layer=3).get_key_buffer(2)


def test_a_pool_of_records_stores_656_bytes_and_gives_rows_back() -> None:
    pool = NSARecordTokenToKVPool(128, 64, torch.float8_e4m3fn, 512, 64, layer_num=2, index_head_dim=128)
    loc = torch.tensor([64, 130])
    latent, rope = torch.randn(2, 1, 512).bfloat16(), torch.randn(2, 1, 64).bfloat16()
    pool.set_mla_kv_buffer(MLA, loc, latent, rope)
    assert pool.get_kv_size_bytes() == 2 * 192 * (656 + 2 * 128)
    again, same = pool.get_mla_kv_buffer(MLA, loc, torch.float32)
    bound = latent.float().unflatten(-1, (4, 128)).abs().amax(-1, keepdim=True) * 2**-4
    assert ((again - latent.float()).unflatten(-1, (4, 128)).abs() <= bound + 2**-7).all()
    assert torch.equal(same, rope.float())
    whole = pool.get_key_buffer(0)
    assert whole.shape == (192, 1, 576) and torch.equal(whole[loc][..., 512:], rope.float())
    assert (whole[loc][..., :512] - again).abs().max() <= again.abs().max() * 2**-8
    pool.move_kv_cache(torch.tensor([65]), torch.tensor([130]))
    assert torch.equal(pool.get_records(0)[65], pool.get_records(0)[130]) and not pool.get_records(1).any()
    keys = torch.randn(2, 128).bfloat16()
    pool.set_index_k_buffer(MLA, loc, keys)
    assert torch.equal(pool.get_index_k_buffer(0)[loc], keys)
    rows = torch.cat((latent, rope), -1)
    other = MLARecordTokenToKVPool(128, 64, torch.float8_e4m3fn, 512, 64, layer_num=1)
    other.set_kv_buffer(MLA, loc, rows, rows)
    assert torch.equal(other.get_records(0)[loc], pool.get_records(0)[loc])
    with pytest.raises(BadArgumentError, match=r"cache_k: expected shape \(2, 1, 576\)"):
        other.set_kv_buffer(MLA, loc, latent, latent)


def test_index_keys_in_fp8_pages_move_with_their_tokens() -> None:
    pool = NSATokenToKVPool(
        128, 64, torch.bfloat16, 512, 64, layer_num=2, index_head_dim=128, index_dtype=torch.float8_e4m3fn
    )
    loc, keys = torch.tensor([64, 130]), torch.randn(2, 128).to(torch.float8_e4m3fn)
    pool.set_index_k_scale_buffer(MLA, loc, keys, torch.tensor([[2.0], [0.25]]))
    pool.set_mla_kv_buffer(MLA, loc, torch.ones(2, 1, 512).bfloat16(), torch.ones(2, 1, 64).bfloat16())
    pool.move_kv_cache(torch.tensor([65, 64]), torch.tensor([64, 130]))
    moved, scales = get_index_k_scale_buffer(pool.get_index_k_with_scale_buffer(0), torch.tensor([65, 64, 130]))
    assert scales.tolist() == [2.0, 0.25, 0.25]
    assert torch.equal(moved.view(torch.uint8), keys[[0, 1, 1]].view(torch.uint8))
    assert pool.get_key_buffer(0)[65].all() and not pool.get_index_k_with_scale_buffer(1).any()
    assert pool.get_kv_size_bytes() == 2 * 192 * (576 * 2 + 132)
    with pytest.raises(BadArgumentError, match=r"index_dtype: expected one of rows of index keys, got torch\.float8"):
        pool.get_index_k_buffer(0)
    with pytest.raises(BadArgumentError, match="index_head_dim: expected 128 for keys in FP8, got 64"):
        NSATokenToKVPool(128, 64, torch.bfloat16, 512, 64, 1, 64, index_dtype=torch.float8_e4m3fn)
    with pytest.raises(BadArgumentError, match="index_dtype: expected None, float32"):
        NSATokenToKVPool(128, 64, torch.bfloat16, 512, 64, 1, 128, index_dtype=torch.int8)


def test_records_have_one_shape() -> None:
    with pytest.raises(BadArgumentError, match=r"kv_lora_rank, qk_rope_head_dim: expected \(512, 64\) of a record"):
        MLARecordTokenToKVPool(128, 64, torch.float8_e4m3fn, 256, 64, layer_num=1)
    with pytest.raises(BadArgumentError, match=r"dtype: expected float8_e4m3fn for records, got torch\.bfloat16"):
        MLARecordTokenToKVPool(128, 64, torch.bfloat16, 512, 64, layer_num=1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_pool_takes_memory_where_it_is_used() -> None:
    """An engine's default pool has 0.9 GiB; several engines in a seat of 2 GiB must not fill it before they start."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident()
    pool = MLATokenToKVPool(65_536, 16, torch.float32, 512, 64, layer_num=2)
    assert pool.get_kv_size_bytes() > 250 * 2**20 and resident() - before < 30 * 2**20
    rows = pool.get_key_buffer(1)
    assert rows.data_ptr() % 128 == 0 and rows.shape == (65_552, 1, 576) and rows.dtype == torch.float32
    rows[40_000] = 1
    assert float(rows[39_999:40_002].sum()) == 576 and float(rows[-1].sum()) == 0
