"""Verification in a CUDA graph: captured once, replayed with other prefixes; and rows that do not depend on a batch."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from sglab.attention import create_attention_backend
from sglab.engine import AttentionType, ForwardMode, GraphBatch
from sglab.workbench import decode_batch, extend_batch, max_error
from tests.support.attention import declared, every_backend, float64_attention, shape_of, verify_batch
from tests.support.attention_matrix import TOLERANCE

VERIFYING = [pair for pair in every_backend() if ForwardMode.TARGET_VERIFY in declared(*pair).graph_modes]


LAYERS: list[tuple[str, str, dict[str, Any]]] = [
    *((*pair, {}) for pair in VERIFYING),
    *((*pair, {"sliding_window_size": 4}) for pair in VERIFYING if declared(*pair).windows_in_trees),
    *((*pair, {"attn_type": AttentionType.ENCODER_ONLY}) for pair in VERIFYING if declared(*pair).bidirectional_drafts),
]


@pytest.mark.parametrize(("name", "kind", "layer"), LAYERS)
def test_a_replay_verifies_the_batch_it_is_given(name: str, kind: str, layer: dict[str, Any]) -> None:
    chain = declared(name, kind).drafts == "chain" or "attn_type" in layer
    parents = [-1, 0, 1] if chain else [-1, 0, 0]
    shape = {"max_context_len": 64, "pool_tokens": 512, **shape_of(name, kind)}
    implementation = "reference" if name in ("triton", "wave", "flashmla") else "auto"
    first = extend_batch([12, 8], [9, 5], **shape)
    backend = create_attention_backend(name, replace(first.runner, kernel_implementation=implementation))
    backend.init_graph(2, 6)
    verify = verify_batch(first, [9, 5], parents)
    backend.prepare_capture(GraphBatch.of(verify))
    for prefixes in ([9, 5], [1, 20]):
        batch = first if prefixes == [9, 5] else extend_batch([p + 3 for p in prefixes], prefixes, seed=3, **shape)
        if batch is not first:  # the pool's requests are those of the captured batch
            first.runner.req_to_token_pool.req_to_token[:] = batch.runner.req_to_token_pool.req_to_token
            for ours, theirs in zip(
                first.runner.token_to_kv_pool.named_buffers(0).values(),
                batch.runner.token_to_kv_pool.named_buffers(0).values(),
                strict=True,
            ):
                ours[:] = theirs
            backend._runner = None  # type: ignore[attr-defined]
            for each in (backend, getattr(backend, "fallback", None)):
                if each is not None:
                    each._runner = None
        now = replace(verify_batch(batch, prefixes, parents), token_to_kv_pool=first.runner.token_to_kv_pool)
        backend.prepare_replay(GraphBatch.of(now))
        for option, value in layer.items():
            setattr(batch.layer, option, value)
        out = backend.forward(batch.q, batch.k, batch.v, batch.layer, now)
        expected = float64_attention(batch, parents=parents)
        assert max_error(out.view(expected.shape), expected) <= TOLERANCE[shape["dtype"]]


FIXED_EXTENDS = (ForwardMode.DRAFT_EXTEND_V2, ForwardMode.DLLM_EXTEND)
CATCHING_UP = [
    (*pair, mode) for mode in FIXED_EXTENDS for pair in every_backend() if mode in declared(*pair).graph_modes
]


@pytest.mark.parametrize(("name", "kind", "mode"), CATCHING_UP)
def test_a_replay_catches_up_with_the_tokens_it_is_given(name: str, kind: str, mode: ForwardMode) -> None:
    """A draft model's pass over three tokens per request, or a diffusion model's over a block of three, captured for
    three requests and replayed for two."""
    new, options = 3, {"max_context_len": 64, "pool_tokens": 512, **shape_of(name, kind)}
    implementation = "reference" if name in ("triton", "flashmla") else "auto"
    batch = extend_batch([12, 8], [9, 5], **options)
    runner = replace(batch.runner, kernel_implementation=implementation)
    ahead = AttentionType.ENCODER_ONLY if mode.is_dllm_extend() and kind == "mha" else AttentionType.DECODER
    batch.layer.attn_type = ahead
    backend: Any = create_attention_backend(name, runner)
    backend.init_graph(4, 4 * new)
    assert backend.serving is backend
    rows = torch.zeros(3, dtype=torch.int64)
    static = replace(
        batch.forward_batch,
        forward_mode=mode,
        batch_size=3,
        input_ids=torch.zeros(3 * new, dtype=torch.int64),
        req_pool_indices=rows,
        seq_lens=torch.ones_like(rows),
        seq_lens_cpu=None,
        out_cache_loc=torch.zeros(3 * new, dtype=torch.int64),
        extend_seq_lens=None,
        extend_seq_lens_cpu=None,
        extend_prefix_lens=None,
        extend_prefix_lens_cpu=None,
    )
    backend.prepare_capture(GraphBatch.of(static))
    addresses = [value.data_ptr() for value in vars(backend.forward_metadata).values() if torch.is_tensor(value)]
    q, k, v = (torch.cat((each, each[:new])) for each in (batch.q, batch.k, batch.v))
    pool = batch.runner.token_to_kv_pool
    slots = torch.cat([batch.slots(i)[-new:] for i in range(2)])
    for lens in ([12, 8], [10, 8]):
        real = torch.tensor(lens)
        if lens != [12, 8]:  # a later pass: the first request kept one of its tokens
            batch = extend_batch(lens, [length - new for length in lens], **{**options, "seed": 7})
            runner.req_to_token_pool.req_to_token[:] = batch.runner.req_to_token_pool.req_to_token
            runner.req_to_token_pool.holders = batch.runner.req_to_token_pool.holders
            runner.token_to_kv_pool_allocator = batch.runner.token_to_kv_pool_allocator
            backend._runner = replace(runner, check_metadata=False)
            batch.layer.attn_type = ahead
            for ours, theirs in zip(
                pool.named_buffers(0).values(), batch.runner.token_to_kv_pool.named_buffers(0).values(), strict=True
            ):
                ours[:] = theirs
            q[: 2 * new], k[: 2 * new], v[: 2 * new] = batch.q, batch.k, batch.v
            slots = torch.cat([batch.slots(i)[-new:] for i in range(2)])
        static.req_pool_indices[:2] = batch.forward_batch.req_pool_indices
        static.seq_lens[:2] = real
        static.out_cache_loc[: 2 * new] = slots
        host = torch.tensor([*lens, 1])
        backend.prepare_replay(replace(GraphBatch.of(static), seq_lens_cpu=host, seq_lens_sum=int(host.sum())))
        out = backend.forward(q, k, v, batch.layer, static).view(3 * new, batch.num_heads, -1)
        assert max_error(out[: 2 * new], float64_attention(batch)) <= TOLERANCE[options["dtype"]]
        assert torch.isfinite(out).all(), "the padded rows are of no use, but finite"
    now = [value.data_ptr() for value in vars(backend.forward_metadata).values() if torch.is_tensor(value)]
    assert now == addresses, "the graph keeps the addresses it captured"


@pytest.mark.parametrize(("name", "kind"), [pair for pair in every_backend() if declared(*pair).deterministic])
def test_a_row_has_the_same_bits_in_every_batch(name: str, kind: str) -> None:
    shape: dict[str, Any] = {**shape_of(name, kind), "seed": 1}
    alone, among = decode_batch([300], **shape), decode_batch([300, 40, 555, 9], **shape)
    pools = [batch.runner.token_to_kv_pool for batch in (among, alone)]
    for ours, theirs in zip(*(pool.named_buffers(0).values() for pool in pools), strict=True):
        ours[among.slots(0)] = theirs[alone.slots(0)]
    among.q[0] = alone.q[0]
    rows = []
    for batch in (alone, among):
        made = create_attention_backend(name, replace(batch.runner, enable_deterministic_inference=True))
        made.prepare(batch.forward_batch)
        rows.append(made.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)[0])
    assert torch.equal(rows[0], rows[1])
