"""flashmla: decode under FlashMLA's plan by our Hopper kernel, everything else through the fallback."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

import sglab
from sglab.attention import create_attention_backend
from sglab.attention.flashmla_backend import FlashMLABackend
from sglab.attention.info import recording
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode, GraphBatch
from sglab.kernels import get_mla_metadata as operator
from sglab.planning.flash_mla import get_mla_metadata
from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference

TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def backend_of(batch: Batch) -> FlashMLABackend:
    made = create_attention_backend("flashmla", batch.runner)
    assert isinstance(made, FlashMLABackend)
    return made


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["contiguous", "fragmented"])
def test_decode_agrees_with_the_reference(layout: Any, dtype: str) -> None:
    batch = decode_batch([130, 1, 64, 257], num_heads=16, page_size=64, layout=layout, dtype=dtype)
    out = sglab.attend(batch, "flashmla")
    assert max_error(out, reference(batch).o) <= TOLERANCE[batch.dtype]
    ran = [(run.operator, run.implementation, run.machine) for run in out.info.runs]
    assert ran[-1] == ("flash_mla_with_kvcache", "sglab", "emulator")
    assert "for Hopper, by FlashMLA's plan, on an emulated sm_90a" in str(out.info)


def test_the_reference_on_request() -> None:
    batch = decode_batch([130, 5], num_heads=16, page_size=64)
    out = sglab.attend(batch, "flashmla", implementation="reference")
    assert max_error(out, reference(batch).o) <= 2e-3
    assert {run.implementation for run in out.info.runs} == {"reference"}


def test_its_metadata_is_flash_mlas_plan_and_a_page_table() -> None:
    batch = decode_batch([300, 100, 129], num_heads=128, page_size=64, layout="fragmented")
    backend = backend_of(batch)
    backend.prepare(batch.forward_batch)
    meta = backend.forward_metadata
    assert meta is not None
    for i in range(3):
        pages = batch.pages(i)
        assert meta.block_kv_indices[i].tolist() == pages + [-1] * (5 - len(pages))
    expected = get_mla_metadata([300, 100, 129], h_q=128, sm_count=132)
    assert meta.flashmla_metadata.tolist() == expected.tile_scheduler_metadata.tolist()
    assert meta.num_splits.tolist() == expected.num_splits.tolist()


def test_extend_goes_to_the_fallback_and_says_so() -> None:
    batch = extend_batch([40, 9], [20, 0], num_heads=2, page_size=64)
    out = sglab.attend(batch, "flashmla")
    assert max_error(out, reference(batch).o) <= 2e-3
    assert any("EXTEND is served by flashinfer: flashmla has no kernel for it" in note for note in out.info.notes)


@dataclass
class VerifyInput:
    draft_token_num: int
    topk: int
    custom_mask: torch.Tensor


PREFIXES = [9, 64, 130]
DRAFTS = 4


def drafts_after(prefixes: list[int], topk: int) -> tuple[Batch, ForwardBatch]:
    """Requests with a chain of drafts, each of which sees what is before it."""
    batch = extend_batch([p + DRAFTS for p in prefixes], prefixes, num_heads=16, page_size=64, dtype="bfloat16")
    chain = torch.ones(DRAFTS, DRAFTS).tril().bool()
    masks = [torch.cat([torch.ones(DRAFTS, p).bool(), chain], 1).flatten() for p in prefixes]
    lens = torch.tensor(prefixes)
    verify = {"seq_lens": lens, "seq_lens_cpu": lens, "seq_lens_sum": sum(prefixes)}
    spec = VerifyInput(DRAFTS, topk, torch.cat(masks))
    mode = {"forward_mode": ForwardMode.TARGET_VERIFY, "extend_seq_lens": None, "extend_prefix_lens": None}
    return batch, replace(batch.forward_batch, **verify, **mode, spec_info=spec)


@pytest.mark.parametrize(("topk", "operator"), [(1, "flash_mla_with_kvcache"), (2, "attend_rows")])
def test_a_chain_of_drafts_is_verified_by_the_kernel_and_a_tree_by_the_fallback(topk: int, operator: str) -> None:
    batch, forward_batch = drafts_after(PREFIXES, topk)
    backend = backend_of(batch)
    with recording(batch.device) as log:
        backend.prepare(forward_batch)
        out = backend.forward(batch.q, batch.k, batch.v, batch.layer, forward_batch)
    assert max_error(out.view(-1, 16, 512), reference(batch).o) <= TOLERANCE[torch.bfloat16]
    assert log.runs[-1].operator == operator


def test_a_graph_captured_after_an_eager_verify_does_not_use_its_plan() -> None:
    batch, forward_batch = drafts_after([9, 20], topk=1)
    backend = backend_of(batch)
    backend.prepare(forward_batch)
    backend.init_graph(2, 2 * DRAFTS)
    backend.prepare_capture(GraphBatch.of(forward_batch))
    with recording(batch.device) as log:
        out = backend.forward(batch.q, batch.k, batch.v, batch.layer, forward_batch)
    assert max_error(out.view(-1, 16, 512), reference(batch).o) <= TOLERANCE[torch.bfloat16]
    assert [run.operator for run in log.runs] == ["flash_mla_with_kvcache"]
    assert backend.forward_metadata is not None
    expected = get_mla_metadata([9 + DRAFTS, 20 + DRAFTS], h_q=16 * DRAFTS, sm_count=132)
    assert backend.forward_metadata.flashmla_metadata.tolist() == expected.tile_scheduler_metadata.tolist()


@pytest.mark.parametrize(("new", "operator"), [([3, 3], "flash_mla_with_kvcache"), ([3, 2], "attend_rows")])
def test_a_draft_model_catches_up_by_the_kernel_where_all_requests_do_by_as_many(new: list[int], operator: str) -> None:
    prefixes = [9, 64]
    lens = [p + n for p, n in zip(prefixes, new, strict=True)]
    batch = extend_batch(lens, prefixes, num_heads=16, page_size=64, dtype="bfloat16")
    backend = backend_of(batch)
    catching_up = replace(batch.forward_batch, forward_mode=ForwardMode.DRAFT_EXTEND_V2)
    with recording(batch.device) as log:
        backend.prepare(catching_up)
        out = backend.forward(batch.q, batch.k, batch.v, batch.layer, catching_up)
    assert max_error(out.view(-1, 16, 512), reference(batch).o) <= TOLERANCE[torch.bfloat16]
    assert log.runs[-1].operator == operator


def test_what_it_cannot_serve_is_refused() -> None:
    with pytest.raises(BadArgumentError, match=r"an MLA batch for flashmla.*Build it with kind"):
        sglab.attend(decode_batch([9], num_heads=2, kind="mha", page_size=64), "flashmla")
    with pytest.raises(BadArgumentError, match="page_size: expected 64 for flashmla, got 128"):
        sglab.attend(decode_batch([9], num_heads=2, page_size=128), "flashmla")


def test_a_rank_plans_for_its_own_heads() -> None:
    """Of 128 heads on two ranks 64 run here: FlashMLA plans other parts for them."""
    batch = decode_batch([4000, 70], num_heads=128, page_size=64, dtype="bfloat16")
    backend = create_attention_backend("flashmla", replace(batch.runner, tp_size=2))
    backend.prepare(batch.forward_batch)
    made: Any = backend.forward_metadata  # type: ignore[attr-defined]
    plans = [operator(batch.seq_lens.to(torch.int32), heads, 1)[0] for heads in (64, 128)]
    assert plans[0].shape != plans[1].shape
    assert torch.equal(made.flashmla_metadata, plans[0])
