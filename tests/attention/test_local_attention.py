"""Llama 4's chunks in fa3, fa4 and intel_xpu: SGLang's virtual batches, the same answers in graphs, refusals.

The golden file was written by `golden/read_local_attention.py`, which runs SGLang 0.5.23's own builder.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sglab.attention import UnsupportedError, create_attention_backend
from sglab.engine import ForwardMode, GraphBatch, ModelRunner
from sglab.workbench import Batch, attend, decode_batch, extend_batch, max_error, reference
from tests.attention.golden.read_backend_metadata import pages
from tests.support.attention import Drafts

GOLDEN = json.loads((Path(__file__).parent / "golden" / "local_attention.json").read_text("utf-8"))
BACKENDS = ("fa3", "fa4", "intel_xpu")
SHAPE: dict[str, Any] = {"kind": "mha", "num_heads": 8, "num_kv_heads": 2, "head_dim": 16, "dtype": "float16"}


def chunked(batch: Batch, chunk: int) -> Batch:
    """The batch of a model whose layers see chunks."""
    batch.runner.model_config = replace(batch.runner.model_config, attention_chunk_size=chunk)
    batch.layer.use_irope = True
    return batch


def golden_runner(chunk: int, page: int) -> ModelRunner:
    batch = decode_batch([9], max_context_len=384, max_running_requests=6, page_size=page, **SHAPE)
    batch.runner.req_to_token_pool.req_to_token = pages(page)
    return replace(chunked(batch, chunk).runner, check_metadata=False)


def assert_made(local: Any, golden: dict[str, Any], what: str) -> None:
    for name, value in golden.items():
        ours = getattr(local, name)
        if isinstance(value, dict):
            assert str(ours.dtype) == f"torch.{value['dtype']}", what
            assert ours.tolist() == value["values"], f"{what}: {name}"
        else:
            assert ours == value, f"{what}: {name}"


def pass_of(case: dict[str, Any], runner: ModelRunner) -> Any:
    """The forward batch of a golden case."""
    new, lens, mode = case["new"], case["lens"], case["mode"]
    drafts = new[0] if mode == "chain" else 0
    known = torch.tensor(lens) - drafts
    prefixes = [length - count for length, count in zip(lens, new, strict=True)]
    extends = mode in ("extend", "first")
    return replace(
        decode_batch([1, 1, 1], **SHAPE).forward_batch,
        forward_mode={"decode": ForwardMode.DECODE, "chain": ForwardMode.TARGET_VERIFY}.get(mode, ForwardMode.EXTEND),
        req_pool_indices=torch.tensor(GOLDEN["rows"]),
        seq_lens=known,
        seq_lens_cpu=known,
        seq_lens_sum=int(known.sum()),
        extend_seq_lens=torch.tensor(new, dtype=torch.int32) if extends else None,
        extend_seq_lens_cpu=new if extends else None,
        extend_prefix_lens=torch.tensor(prefixes, dtype=torch.int32) if extends else None,
        extend_prefix_lens_cpu=prefixes if extends else None,
        spec_info=Drafts(drafts, torch.ones(1, dtype=torch.bool)) if drafts else None,
        req_to_token_pool=runner.req_to_token_pool,
        token_to_kv_pool=runner.token_to_kv_pool,
    )


@pytest.mark.parametrize("name", BACKENDS)
def test_virtual_batches_are_sglangs(name: str) -> None:
    for case in GOLDEN["cases"]:
        runner = golden_runner(case["chunk"], case["page"])
        made: Any = create_attention_backend(name, runner)
        made.prepare(pass_of(case, runner))
        what = f"{case['mode']}, chunks of {case['chunk']}, pages of {case['page']}"
        assert_made(made.forward_metadata.local_attn_metadata, case["made"], what)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_replayed_decode_reads_what_sglangs_does(name: str) -> None:
    for case in GOLDEN["graphs"]:
        runner = golden_runner(case["chunk"], case["page"])
        made: Any = create_attention_backend(name, runner)
        made.init_graph(8, 8)
        rows, lens = torch.tensor([*GOLDEN["rows"], 0]), torch.tensor([9, 130, 64, 1])
        batch = GraphBatch(4, 4, ForwardMode.DECODE, torch.zeros_like(rows), torch.ones_like(rows))
        made.prepare_capture(batch)
        captured = made.forward_metadata.local_attn_metadata
        made.prepare_replay(replace(batch, req_pool_indices=rows, seq_lens=lens))
        local = made.forward_metadata.local_attn_metadata
        for field in ("local_query_start_loc", "local_seqused_k", "local_block_table"):
            assert getattr(local, field).data_ptr() == getattr(captured, field).data_ptr()
        golden = dict(case["made"])
        table = golden.pop("local_block_table")["values"]
        assert_made(local, golden, str(case))
        width = -(-130 // case["page"])  # upstream cuts its table there, ours is a buffer's, of the longest request
        for row, (ours, theirs, keys) in enumerate(
            zip(local.local_block_table.tolist(), table, local.local_seqused_k.tolist(), strict=True)
        ):
            used = min(-(-keys // case["page"]), width)
            assert ours[:used] == theirs[:used], f"{case['chunk']}, row {row}"


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("name", BACKENDS)
def test_captured_passes_give_the_eager_answer(name: str, tokens: int) -> None:
    """Decoding, and a draft model that catches up, with a padded request."""
    lens = [21, 5, 16]
    prefixes = [length - tokens for length in lens]
    made_of = decode_batch(lens, page_size=4, **SHAPE) if tokens == 1 else None
    batch = chunked(made_of or extend_batch(lens, prefixes, page_size=4, **SHAPE), 8)
    backend = create_attention_backend(name, batch.runner)
    backend.init_graph(4, 4 * tokens)
    mode = ForwardMode.DECODE if tokens == 1 else ForwardMode.DRAFT_EXTEND_V2
    forward = batch.forward_batch
    rows = [torch.cat((each, each.new_zeros((tokens, *each.shape[1:])))) for each in (batch.q, batch.k, batch.v)]
    places, ones = torch.cat((forward.req_pool_indices, torch.zeros(1).long())), torch.ones(4, dtype=torch.int64)
    known = torch.tensor([*lens, 1])
    backend.prepare_capture(GraphBatch(4, 4 * tokens, mode, torch.zeros_like(places), ones))
    backend.prepare_replay(GraphBatch(4, 4 * tokens, mode, places, known))
    loc = torch.cat((forward.out_cache_loc, torch.zeros(tokens, dtype=torch.int64)))
    padded = replace(forward, forward_mode=mode, batch_size=4, out_cache_loc=loc, seq_lens=known)
    out = backend.forward(*rows, batch.layer, padded)[: len(batch.q)]
    assert max_error(out.view(len(batch.q), 8, 16), reference(batch).o) <= 3e-3


def test_lengths_that_only_the_device_knows_give_the_same() -> None:
    batch = chunked(decode_batch([21, 5, 16], page_size=4, **SHAPE), 8)
    backend = create_attention_backend("fa3", batch.runner)
    backend.prepare(replace(batch.forward_batch, seq_lens_cpu=None))
    out = backend.forward(batch.q, batch.k, batch.v, batch.layer, replace(batch.forward_batch, seq_lens_cpu=None))
    assert max_error(out.view(3, 8, 16), reference(batch).o) <= 3e-3


def test_a_layer_that_sees_everything_does_so_in_such_a_model() -> None:
    batch = chunked(extend_batch([30, 9], [12, 0], page_size=4, **SHAPE), 8)
    batch.layer.use_irope = False
    whole = attend(batch, backend="fa3")
    assert max_error(whole, reference(batch).o) <= 3e-3
    batch.layer.use_irope = True
    assert not torch.equal(attend(batch, backend="fa3"), whole)


def test_pages_that_do_not_divide_a_chunk_are_refused_and_backends_without_chunks_name_one_that_has_them() -> None:
    batch = chunked(decode_batch([9], page_size=16, **SHAPE), 24)
    with pytest.raises(UnsupportedError, match=r"page_size: expected a divisor of .*chunk_size 24 for fa3, got 16\."):
        create_attention_backend("fa3", batch.runner)
    with pytest.raises(UnsupportedError, match=r"layer.use_irope: .* got True, with chunks of 24\. Use .*fa3"):
        attend(batch, backend="triton")
