"""What calls of public operators cost on the host, kernels left out: python benchmarks/operator_calls.py [NAME …]

CPU tensors, a batch of 8, contents not checked (as on a GPU), implementations that do nothing: checks, outputs, what a
call derives from its arguments, choice. Prints µs of CPU time per call, the least of several rounds: of the first kind,
whose shapes are always new, and of a call whose shapes repeat. Needs no GPU; what a launch adds is measured by
host_time.py, the MLA operators' own kernels by host_path.py.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch

from sglab import kernels
from sglab.kernels import known_calls, registry

BATCH, HEADS, KV_HEADS, DIM, PAGE, TOKENS = 8, 32, 8, 128, 16, 1024
ROUNDS = 9

Call = Callable[[], object]


def rows(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def counts(size: int, step: int = 1) -> torch.Tensor:
    """int32 [size + 1]: 0, step, 2 step …"""
    return torch.arange(size + 1, dtype=torch.int32) * step


def calls() -> Iterator[tuple[str, Call]]:
    """(operator, call)"""
    pages = BATCH * TOKENS // PAGE
    k, v = rows(pages + 1, PAGE, KV_HEADS, DIM), rows(pages + 1, PAGE, KV_HEADS, DIM)
    k_slots, v_slots = k.flatten(0, 1), v.flatten(0, 1)
    q, new = rows(BATCH, HEADS, DIM), rows(BATCH, KV_HEADS, DIM)
    indices, indptr = torch.arange(pages, dtype=torch.int32), counts(BATCH, TOKENS // PAGE)
    last, lens = torch.full((BATCH,), PAGE, dtype=torch.int32), torch.full((BATCH,), TOKENS, dtype=torch.int32)
    table, slots = indices.view(BATCH, -1), torch.arange(BATCH * TOKENS, dtype=torch.int32)
    numbers, loc, cos_sin = torch.arange(BATCH, dtype=torch.int32), torch.arange(BATCH), torch.randn(4096, DIM)
    plain: dict[str, Any] = {"check_values": False}
    one_each = counts(BATCH)

    def call(name: str, *arguments: Any, **options: Any) -> tuple[str, Call]:
        operator = getattr(kernels, name.partition(",")[0])
        return name, lambda: operator(*arguments, **options)

    caches = {"cache_seqlens": lens - 5, "page_table": table, "causal": True, **plain}
    yield call("flash_attn_with_kvcache", q[:, None], k, v, **caches)
    yield call("flash_attn_with_kvcache, appending", q[:, None], k, v, new[:, None], new[:, None], **caches)
    ragged = (rows(64, HEADS, DIM), rows(64, KV_HEADS, DIM), rows(64, KV_HEADS, DIM), counts(8, 8))
    yield call("flash_attn_varlen_func", *ragged, counts(8, 8), 8, 8, causal=True, **plain)
    paged = ((k, v), one_each, indptr, indices, last, 1)
    yield call("batch_prefill_with_paged_kv_cache", q, *paged, causal=True, **plain)
    yield call("batch_prefill_with_ragged_kv_cache", q, new, new, one_each, one_each, 1, causal=True, **plain)
    shared = kernels.CascadeLevel(counts(1, BATCH), counts(1, 4), indices[:4], last[:1])
    own = kernels.CascadeLevel(one_each, indptr, indices, last)
    yield call("cascade_attention", q, (k, v), [shared, own], causal=True, **plain)
    appended = (new, new, numbers, numbers, (k, v), indices, indptr, last)
    yield call("append_paged_kv_cache", *appended, **plain)
    rotated = (q, new.clone(), new.clone(), k_slots, v_slots, cos_sin, loc, loc)
    yield call("apply_rope_inplace_with_kvcache", *rotated, is_neox=True, **plain)
    yield call("store_cache", new, new, k_slots, v_slots, loc, **plain)
    splits = torch.full((BATCH,), 8, dtype=torch.int32)
    partial = (torch.empty(BATCH, HEADS, 8, DIM), torch.empty(BATCH, HEADS, 8), splits, 8, 0.1)
    decode = (q, k_slots, v_slots, torch.empty_like(q), counts(BATCH, TOKENS), slots.long(), *partial)
    yield call("decode_attention_fwd", *decode, **plain)
    q64, k64, v64, starts = ragged
    extend = (q64, k64, v64, torch.empty_like(q64), k_slots, v_slots, starts, counts(BATCH, TOKENS), slots.long())
    yield call("extend_attention_fwd", *extend, None, True, None, 8, 0.1, **plain)
    logits, requests = torch.zeros(BATCH, HEADS, 8, DIM + 1), slots.view(BATCH, -1)
    host = (q, k_slots, v_slots, torch.empty_like(q), None, None, None, logits, requests, loc, lens.long(), 0.1)
    yield call("decode_attention_cpu", *host, **plain)
    state = (rows(BATCH, HEADS, DIM), torch.rand(BATCH, HEADS))
    yield call("merge_state", *state, *state)
    yield call("merge_state_v2", *state, *state)
    yield call("rmsnorm", rows(BATCH, 4096), rows(4096))


def microseconds(call: Call, before: Callable[[], object] = lambda: None) -> float:
    for _ in range(3):
        call()
    best = float("inf")
    for _ in range(ROUNDS):
        spent = 0.0
        for _ in range(100):
            before()
            start = time.thread_time()
            call()
            spent += time.thread_time() - start
        best = min(best, spent / 100)
    return best * 1e6


def nothing(_: object) -> tuple[()]:
    return ()


def main() -> None:
    torch.set_num_threads(1)
    asked = sys.argv[1:]
    print(f"{'':40}{'checked':>10}{'repeated':>10}  µs")
    with mock.patch.object(registry.Implementation, "function", lambda _: nothing):
        for name, call in calls():
            if asked and not any(name.startswith(each) for each in asked):
                continue
            with mock.patch.object(known_calls, "_key", lambda *_: None):
                checked = microseconds(call)
            print(f"{name:40}{checked:>10.1f}{microseconds(call):>10.1f}", flush=True)


if __name__ == "__main__":
    main()
