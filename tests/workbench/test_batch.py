"""decode_batch, extend_batch and the edits of a live Batch."""

import inspect
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sglab
from sglab.engine import BadArgumentError, ForwardMode, PoolExhaustedError
from sglab.workbench import Batch, decode_batch, extend_batch
from sglab.workbench.options import BatchKeywords, BatchOptions

SMALL: dict[str, Any] = {"num_heads": 4, "kind": "mha", "num_kv_heads": 2, "head_dim": 16}


def snapshot(batch: Batch) -> dict[str, Any]:
    """All an edit could change, by value."""
    runner, tree = batch.runner, batch.tree_cache
    return {
        "free": runner.token_to_kv_pool_allocator.free_pages.tolist(),
        "rows": list(runner.req_to_token_pool.free_slots),
        "table": batch.req_to_token.tolist(),
        "kv": [buffer.tolist() for buffer in runner.token_to_kv_pool.named_buffers(0).values()],
        "tree": sorted((n.id, tuple(n.key.token_ids), tuple(n.value.tolist()), n.lock_ref) for n in tree.nodes()),
        "sizes": (tree.evictable_size(), tree.protected_size()),
        "reqs": [(r.rid, r.token_ids(), r.kv_committed_len, r.cache_protected_len) for r in batch.reqs],
        "q": batch.q.tolist(),
        "seq_lens": batch.seq_lens.tolist(),
        "loc": batch.forward_batch.out_cache_loc.tolist(),
    }


def test_importing_sglab_needs_no_torch() -> None:
    code = "import sys, sglab; assert 'torch' not in sys.modules; assert 'decode_batch' in dir(sglab)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert sglab.decode_batch is decode_batch


def test_an_mla_decode_batch_is_live_and_complete() -> None:
    batch = decode_batch([300, 1000, 77], num_heads=128, page_size=128, dtype="float16", seed=0)
    assert batch.q.shape == (3, 128, 576) and batch.q.dtype == torch.float16
    pool = batch.runner.token_to_kv_pool
    assert pool.get_key_buffer(0).shape == (pool.size + 128, 1, 576)
    assert batch.seq_lens.tolist() == [300, 1000, 77]
    assert batch.forward_batch.positions.tolist() == [299, 999, 76]
    assert batch.sm_scale == pytest.approx((128 + 64) ** -0.5)
    assert [batch.pages(i) for i in range(3)] == [[1, 2, 3], list(range(4, 12)), [12]]
    assert batch.forward_batch.out_cache_loc.tolist() == [int(batch.slots(i)[-1]) for i in range(3)]
    assert torch.equal(batch.k, pool.get_key_buffer(0)[batch.forward_batch.out_cache_loc])
    assert torch.equal(batch.v, batch.k[..., :512])
    assert pool.get_key_buffer(0)[:128].count_nonzero() == 0, "the dummy page is never filled"
    batch.check()


def test_equal_seeds_give_equal_tensors() -> None:
    one, same, other = (decode_batch([40, 9], seed=seed, **SMALL) for seed in (1, 1, 2))
    assert torch.equal(one.q, same.q) and not torch.equal(one.q, other.q)
    assert torch.equal(one.k, same.k)


@pytest.mark.parametrize("page_size", [1, 16])
def test_fragmented_pages_are_scattered_by_real_frees(page_size: int) -> None:
    straight = decode_batch([600], page_size=page_size, **SMALL)
    scattered = decode_batch([600], page_size=page_size, layout="fragmented", **SMALL)
    pages = scattered.pages(0)
    assert straight.pages(0) == sorted(straight.pages(0)) and pages != sorted(pages)
    every = sorted(pages + scattered.free_pages())
    assert every == list(range(1, scattered.runner.token_to_kv_pool.num_pages + 1))
    scattered.check()


def test_an_extend_batch_computes_from_its_prefixes() -> None:
    batch = extend_batch([30, 12], [10, 0], page_size=4, **SMALL)
    fwd = batch.forward_batch
    assert fwd.forward_mode is ForwardMode.EXTEND
    assert fwd.extend_prefix_lens.tolist() == [10, 0] and fwd.extend_seq_lens.tolist() == [20, 12]
    assert fwd.positions.tolist() == [*range(10, 30), *range(12)]
    assert batch.q.shape == (32, 4, 16) and batch.k.shape == (32, 2, 16)
    assert fwd.out_cache_loc.tolist() == batch.slots(0)[10:].tolist() + batch.slots(1).tolist()
    batch.check()


def test_decoding_requests_make_an_extend_batch_mixed() -> None:
    batch = extend_batch([8], 3, decode_seq_lens=[5, 17], page_size=4, **SMALL)
    assert batch.forward_batch.forward_mode is ForwardMode.MIXED
    assert batch.new_tokens == [5, 1, 1] and batch.forward_batch.extend_prefix_lens.tolist() == [3, 4, 16]


def test_a_shared_prefix_is_one_set_of_pages() -> None:
    batch = decode_batch([40, 23, 17], page_size=8, shared_prefix=17, **SMALL)
    assert batch.pages(0)[:2] == batch.pages(1)[:2] == batch.pages(2)[:2]
    owned = [page for i in range(3) for page in batch.pages(i)[2:]]
    assert len(owned) == len(set(owned))
    keys = batch.runner.token_to_kv_pool.get_key_buffer(0)
    assert torch.equal(keys[batch.slots(0)[:17]], keys[batch.slots(1)[:17]]), "token 16 was computed again, equally"
    assert batch.reqs[0].token_ids()[:17] == batch.reqs[2].token_ids()[:17]
    batch.check()


def test_growing_by_a_token_takes_the_next_slot_or_a_new_page() -> None:
    batch = decode_batch([7, 8], page_size=8, seed=3, **SMALL)
    before = batch.q.clone()
    assert batch.extend_by_token(0) == batch.slots(0)[6] + 1
    slot = batch.extend_by_token(1)
    assert slot % 8 == 0 and slot // 8 not in (1, 2)
    assert batch.seq_lens.tolist() == [8, 9] and batch.q.shape == before.shape
    assert not torch.equal(batch.q[0], before[0])
    batch.check()


def test_growing_an_extend_batch_adds_a_query() -> None:
    batch = extend_batch([7, 8], 2, page_size=4, **SMALL)
    kept = batch.q.clone()
    batch.extend_by_token(0)
    assert batch.new_tokens == [6, 6] and batch.q.shape[0] == 12
    assert torch.equal(batch.q[:5], kept[:5]) and torch.equal(batch.q[6:], kept[5:])
    batch.check()


def test_edits_of_q_survive_edits_of_the_batch() -> None:
    batch = decode_batch([7, 8], page_size=4, **SMALL)
    batch.q[1] = 5.0
    batch.free(0)
    batch.allocate(3)
    assert torch.equal(batch.q[0], torch.full_like(batch.q[0], 5.0)) and batch.q.shape[0] == 2


def test_a_wrong_q_refuses_edits_too() -> None:
    batch = decode_batch([7, 8], page_size=4, **SMALL)
    batch.q = batch.q[:1]
    with pytest.raises(BadArgumentError, match=r"q: expected shape \(2, 4, 16\), got \(1, 4, 16\)"):
        batch.free(0)
    assert batch.batch_size == 2 and len(batch.pages(0)) == 2


def test_groups_admitted_later_share_their_own_prefix() -> None:
    batch = decode_batch([20], page_size=8, pool_tokens=256, **SMALL)
    batch.admit([18, 17], [1, 1], shared_prefix=17)
    assert batch.pages(1)[:2] == batch.pages(2)[:2] and not set(batch.pages(0)) & set(batch.pages(1))
    keys = batch.runner.token_to_kv_pool.get_key_buffer(0)
    assert torch.equal(keys[batch.slots(1)[:17]], keys[batch.slots(2)[:17]])


def test_sharing_a_prefix_later_takes_pages_over_into_the_tree() -> None:
    batch = decode_batch([20, 5], page_size=8, **SMALL)
    i = batch.share_prefix(0, 18, extra_tokens=3)
    assert i == 2 and batch.pages(2)[:2] == batch.pages(0)[:2] == batch.cached_pages()
    assert batch.pages(2)[2] != batch.pages(0)[2]
    keys = batch.runner.token_to_kv_pool.get_key_buffer(0)
    assert torch.equal(keys[batch.slots(2)[:18]], keys[batch.slots(0)[:18]])
    batch.check()


def test_shared_pages_outlive_their_first_owner_and_are_evicted_for_room() -> None:
    batch = decode_batch([16], page_size=8, pool_tokens=32, **SMALL)
    batch.share_prefix(0, 16, extra_tokens=2)
    batch.free(0)
    assert batch.pages(0)[:2] == batch.cached_pages() == [1, 2]
    batch.free(0)
    assert batch.cached_pages() == [1, 2] and batch.tree_cache.evictable_size() == 16
    batch.allocate(30)
    assert batch.cached_pages() == [] and batch.free_pages() == []


def test_an_empty_batch_is_idle() -> None:
    batch = decode_batch([5], page_size=4, **SMALL)
    batch.free(0)
    assert batch.forward_batch.forward_mode is ForwardMode.IDLE and batch.batch_size == 0
    batch.allocate(6)
    assert batch.forward_batch.forward_mode is ForwardMode.DECODE


@pytest.mark.parametrize(
    "edit",
    [
        lambda batch: batch.allocate(200),
        lambda batch: batch.extend_by_token(0),
        lambda batch: batch.share_prefix(0, 9, extra_tokens=60),
        lambda batch: batch.admit([4, 4, 70], [1, 1, 1], shared_prefix=4),
    ],
)
@pytest.mark.parametrize("cached", [False, True])
def test_a_refused_edit_changes_nothing(edit: Any, cached: bool) -> None:
    batch = decode_batch([16, 12, 20], page_size=4, pool_tokens=64, max_context_len=256, **SMALL)
    batch.allocate(16)
    if cached:
        batch.free(2, keep_cached=True)
        batch.allocate(20, token_ids=list(range(1000, 1020)))
    before = snapshot(batch)
    with pytest.raises(PoolExhaustedError, match="exhausted"):
        edit(batch)
    assert snapshot(batch) == before
    batch.check()


def test_a_refused_request_length_changes_nothing() -> None:
    batch = decode_batch([5], page_size=4, max_context_len=16, **SMALL)
    before = snapshot(batch)
    for edit in (lambda: batch.allocate(17), lambda: batch.allocate(0), lambda: batch.allocate(8, new_tokens=2)):
        with pytest.raises(BadArgumentError):
            edit()
    for edit in (lambda: batch.free(1), lambda: batch.extend_by_token(-1), lambda: batch.share_prefix(0, 6)):
        with pytest.raises(BadArgumentError):
            edit()
    for edit in (lambda: batch.allocate(2.5), lambda: batch.free("0"), lambda: batch.evict(-1)):  # type: ignore[arg-type]
        with pytest.raises(BadArgumentError):
            edit()
    assert snapshot(batch) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seq_lens": []}, "seq_lens: expected one or more lengths"),
        (
            {"seq_lens": [5, 0]},
            r"seq_lens\[1\]: expected an integer of at least 1, got 0\. Give every request a length",
        ),
        ({"page_size": 24}, "page_size: expected a power of two, got 24"),
        ({"pool_tokens": 100}, r"pool_tokens: expected a multiple of page_size 64, got 100\. 64 or 128 would do"),
        ({"dtype": "int8"}, r"dtype: expected float16 or bfloat16 or float32, got 'int8'"),
        ({"num_kv_heads": 8}, r'num_kv_heads: expected 1 for MLA.*got 8. For GQA pass kind="mha"'),
        ({"kind": "gqa"}, "kind: expected 'mla' or 'mha', got 'gqa'"),
        ({"kind": "mha", "num_heads": 6, "num_kv_heads": 4}, "num_heads: expected a multiple of num_kv_heads 4, got 6"),
        ({"layout": "random"}, "layout: expected 'contiguous' or 'fragmented'"),
        ({"shared_prefix": 9}, r"shared_prefix: expected an integer 0\.\.5, got 9\. The shortest request has 5 tokens"),
        ({"seq_lens": "300"}, r"seq_lens: expected a list of lengths, got '300'"),
        ({"seq_lens": 5}, "seq_lens: expected a list of lengths, got 5"),
        ({"seq_lens": [5, 6.5]}, r"seq_lens\[1\]: expected an integer of at least 1, got 6\.5"),
        ({"seq_lens": [2**40, 5]}, r"seq_lens\[0\]: expected an integer 1\.\.2147483647"),
        ({"seq_lens": [2**31 - 1] * 64}, r"seq_lens: expected a KV pool that fits cpu, got [\d,]+ GiB\. Shorten"),
        ({"page_size": 1.5}, r"page_size: expected a power of two, got 1\.5"),
        ({"pool_tokens": 0}, "pool_tokens: expected an integer of at least 64, got 0"),
        ({"num_heads": "8"}, "num_heads: expected an integer of at least 1, got '8'"),
        ({"kind": "mha", "head_dim": 0}, "head_dim: expected an integer of at least 1, got 0"),
        ({"qk_rope_head_dim": -1}, "qk_rope_head_dim: expected an integer of at least 0, got -1"),
        ({"max_running_requests": -2}, "max_running_requests: expected an integer of at least 1, got -2"),
        ({"sm_scale": math.nan}, "sm_scale: expected a positive finite number, got nan"),
        ({"sm_scale": -0.1}, "sm_scale: expected a positive finite number, got -0.1"),
        ({"logit_cap": -1.0}, r"logit_cap: expected a finite number of at least 0, got -1\.0"),
        ({"seed": "a"}, "seed: expected an integer .* got 'a'"),
        ({"device": "xyz"}, "device: expected 'cpu', 'cuda' or 'cuda:N', got 'xyz'"),
        ({"device": "cuda:99"}, "device: expected a device of this machine, got 'cuda:99' where there is"),
        ({"max_context_len": 4}, r"seq_lens: expected at most max_context_len 4, got 5"),
    ],
)
def test_wrong_arguments_are_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadArgumentError, match=message):
        decode_batch(**{"seq_lens": [5, 6], "num_heads": 8, **change})


def test_a_pool_too_small_for_the_batch_is_refused() -> None:
    with pytest.raises(
        PoolExhaustedError, match=r"KV pool is exhausted: 192 slots .* needed, 128 available.*pool_tokens"
    ):
        decode_batch([65, 3], num_heads=1, pool_tokens=128)


def test_prefixes_must_be_shorter_than_their_requests() -> None:
    with pytest.raises(BadArgumentError, match=r"prefix_lens: .*each below its seq_len \[5, 6\], got \[5, 0\]"):
        extend_batch([5, 6], [5, 0], **SMALL)


def test_a_length_that_no_memory_could_list_is_refused_at_once() -> None:
    batch = decode_batch([16, 12], page_size=4, max_context_len=256, **SMALL)
    for edit in (lambda: batch.allocate(2 * 10**9), lambda: batch.share_prefix(0, 4, extra_tokens=10**9)):
        with pytest.raises(BadArgumentError, match=r"at most max_context_len 256, got \d{10}"):
            edit()


def owned(batch: Batch) -> dict[str, Any]:
    """All of a snapshot but KV rows that nobody owns."""
    pages = set(batch.cached_pages()).union(*(batch.pages(i) for i in range(batch.batch_size)))
    kv = [
        [rows[page * batch.page_size : (page + 1) * batch.page_size] for page in pages]
        for rows in snapshot(batch)["kv"]
    ]
    return {**snapshot(batch), "kv": kv}


def test_edits_are_taken_back_with_the_kv_that_they_gave_away() -> None:
    batch = decode_batch([16, 12, 20], page_size=4, pool_tokens=64, max_context_len=256, **SMALL)
    edits: list[tuple[int | None, Callable[[], object]]] = [
        (None, lambda: batch.share_prefix(1, 9)),
        (0, lambda: batch.free(0)),
        (None, lambda: batch.allocate(20)),  # on the pages of the request that left
        (1, lambda: batch.free(1, keep_cached=True)),
        (None, lambda: batch.extend_by_token(0)),
        (None, lambda: batch.allocate(16)),  # evicts what was kept
        (None, lambda: batch.evict(64)),
    ]
    states = []
    for leaving, edit in edits:
        states.append((batch.snapshot(leaving), owned(batch)))
        edit()
    while states:
        before, expected = states.pop()
        before.restore()
        assert owned(batch) == expected
        batch.check()


@settings(max_examples=25, deadline=None)
@given(
    page_size=st.sampled_from([1, 4, 16]),
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    edits=st.lists(st.tuples(st.sampled_from("aefs"), st.integers(0, 50), st.integers(1, 30)), max_size=12),
)
def test_no_edit_loses_a_page_or_breaks_the_table(
    page_size: int, lengths: list[int], edits: list[tuple[str, int, int]]
) -> None:
    batch = decode_batch(lengths, page_size=page_size, layout="fragmented", max_context_len=64, **SMALL)
    for kind, which, size in edits:
        i = which % max(batch.batch_size, 1)
        try:
            if kind == "a" or not batch.batch_size:
                batch.allocate(size)
            elif kind == "e":
                batch.extend_by_token(i)
            elif kind == "f":
                batch.free(i, keep_cached=bool(which & 1))
            else:
                batch.share_prefix(i, min(size, int(batch.seq_lens[i])))
        except PoolExhaustedError:
            pass
        if batch.batch_size:
            batch.check()
    owned = set(batch.cached_pages()).union(*(batch.pages(i) for i in range(batch.batch_size)))
    assert sorted([*owned, *batch.free_pages()]) == list(range(1, batch.runner.token_to_kv_pool.num_pages + 1))


def test_the_options_are_listed_alike_for_readers_and_type_checkers() -> None:
    options = {field.name: field for field in fields(BatchOptions)}
    assert set(options) == {"num_heads", "num_kv_heads", *BatchKeywords.__annotations__}
    for name, annotation in BatchKeywords.__annotations__.items():
        assert annotation.__forward_arg__ == options[name].type
    for builder in (decode_batch, extend_batch):
        shown = inspect.signature(builder).parameters
        assert {name: shown[name].default for name in options} == {name: each.default for name, each in options.items()}
    named = r"^decode_batch\(\) got an unexpected keyword argument 'pagesize'; it takes seq_lens, .*page_size, "
    with pytest.raises(TypeError, match=named):
        decode_batch([9], pagesize=4)  # type: ignore[call-arg]
