"""flashinfer: which route an extend takes, tensor cores, workspaces, plans without the device, multi-item scoring."""

from dataclasses import replace
from typing import Any

import pytest
import torch

import sglab
from sglab.attention import create_attention_backend
from sglab.attention.flashinfer.indices import IndicesUpdater
from sglab.attention.flashinfer.mha import FlashInferAttnBackend, PrefillMetadata
from sglab.attention.flashinfer.multi_item import multi_item_params
from sglab.attention.flashinfer.options import TENSOR_CORE_VARIABLE, should_use_tensor_core, workspace_bytes
from sglab.attention.workspace import forget_workspaces, shared_workspace
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch
from sglab.planning.flashinfer_decode import DecodePlan
from sglab.planning.flashinfer_prefill import PrefillPlan
from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference

SHAPE: dict[str, Any] = {"kind": "mha", "num_heads": 8, "num_kv_heads": 2, "head_dim": 64, "page_size": 4}


def made(batch: Batch, **changes: Any) -> FlashInferAttnBackend:
    backend = create_attention_backend("flashinfer", replace(batch.runner, **changes))
    assert isinstance(backend, FlashInferAttnBackend)
    return backend


def route(backend: FlashInferAttnBackend, batch: ForwardBatch) -> tuple[bool, bool]:
    backend.prepare(batch)
    assert isinstance(backend.forward_metadata, PrefillMetadata)
    return backend.forward_metadata.use_ragged, backend.forward_metadata.extend_no_prefix


def test_the_route_of_an_extend() -> None:
    first, later = extend_batch([9, 7], **SHAPE), extend_batch([9, 7], [4, 0], **SHAPE)
    assert route(made(first), first.forward_batch) == (True, True)
    assert route(made(later), later.forward_batch) == (True, False)
    assert route(made(later, enable_deterministic_inference=True), later.forward_batch) == (False, False)
    catching_up = replace(later.forward_batch, forward_mode=ForwardMode.DRAFT_EXTEND)
    assert route(made(later), catching_up) == (False, False)
    backend = FlashInferAttnBackend(later.runner, multi_item_scoring_delimiter=-1)
    assert route(backend, later.forward_batch) == (False, False)


def test_both_routes_give_one_answer_and_the_merged_one_reads_each_token_once() -> None:
    batch = extend_batch([30, 9, 12], [20, 0, 11], **SHAPE)
    for changes in ({}, {"enable_deterministic_inference": True}):
        backend = made(batch, **changes)
        out = sglab.attend(batch, backend)
        assert max_error(out, reference(batch).o) <= 3e-3
    merged = [run.operator for run in sglab.attend(batch, made(batch)).info.runs]
    assert "merge_state" in merged


def test_tensor_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    half, eight = torch.bfloat16, torch.float8_e4m3fn
    assert [should_use_tensor_core(half, heads, 8) for heads in (8, 24, 32)] == [False, False, True]
    assert should_use_tensor_core(eight, 8, 8) and not should_use_tensor_core(torch.float32, 64, 8)
    monkeypatch.setenv(TENSOR_CORE_VARIABLE, "false")
    assert not should_use_tensor_core(eight, 64, 8)


def test_one_workspace_for_all() -> None:
    forget_workspaces()
    batch = decode_batch([9], **SHAPE)
    first, second = made(batch), made(batch, enable_deterministic_inference=True)
    assert first.workspace is second.workspace and first.workspace.nbytes == 384 << 20
    assert (workspace_bytes("Qwen3ForCausalLM"), workspace_bytes(deterministic=True)) == (512 << 20, 2048 << 20)
    assert shared_workspace("trtllm", 1, batch.device, zeros=True) is not first.workspace


def test_a_decode_is_planned_from_the_hosts_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """As fast_decode_plan: nothing is copied from the device. A group of 4 heads plans as a prefill."""
    batch = decode_batch([300, 20], **SHAPE)
    backend = made(batch)
    backend.prepare(batch.forward_batch)
    wrapper: Any = backend.forward_metadata.decode_wrappers[0]  # type: ignore[union-attr]

    def waits(*args: object) -> None:
        raise AssertionError("copied from the device")

    monkeypatch.setattr(torch.Tensor, "cpu", waits)
    assert isinstance(wrapper.plan(), PrefillPlan) and wrapper.use_tensor_cores
    wrapper = replace(wrapper, use_tensor_cores=False, _plan=None)
    plan = wrapper.plan()
    assert isinstance(plan, DecodePlan) and plan.o_indptr[-1] == plan.new_batch_size


def test_a_captured_window_follows_the_lengths() -> None:
    batch = decode_batch([20, 9], max_context_len=64, **SHAPE)
    batch.layer.sliding_window_size = 5
    backend = made(batch)
    backend.init_graph(2, 2)
    ones = torch.ones(2, dtype=torch.int64)
    backend.prepare_capture(GraphBatch(2, 2, ForwardMode.DECODE, ones * 0, ones))
    backend.prepare_replay(GraphBatch.of(batch.forward_batch))
    out = backend.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)
    assert max_error(out.view(2, 8, 64), reference(batch).o) <= 3e-3


def test_updaters_make_the_same_arrays_without_lengths_on_the_host() -> None:
    batch = decode_batch([20, 9], max_context_len=64, **SHAPE)
    updater = made(batch).updater
    assert isinstance(updater, IndicesUpdater)
    known, unknown = (
        updater.decode(each) for each in (batch.forward_batch, replace(batch.forward_batch, seq_lens_cpu=None))
    )
    assert torch.equal(known.kv_indptr, unknown.kv_indptr)
    assert known.kv_indices.tolist() == unknown.kv_indices[:29].tolist() and unknown.kv_lens is None


DELIMITER = 99


def test_items_of_one_prompt_do_not_see_each_other() -> None:
    """Seven tokens, then three items of one token, each after a delimiter, and a last delimiter."""
    batch = extend_batch([14], **SHAPE)
    forward = batch.forward_batch
    forward.input_ids[:] = torch.tensor([1, 2, 3, 4, 5, 6, 7, 99, 8, 99, 9, 99, 10, 99])
    params = multi_item_params(replace(forward, positions=forward.positions.clone()), DELIMITER)
    assert params is not None
    assert params.prefix_len_ptr.tolist() == [7] and params.token_pos_in_items_len == 7
    assert params.token_pos_in_items_ptr.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert params.max_item_len_ptr.to(torch.int64).tolist() == [1]
    backend = FlashInferAttnBackend(batch.runner, multi_item_scoring_delimiter=DELIMITER)
    backend.prepare(forward)
    assert forward.positions is not None and forward.positions[7:].tolist() == [6, 7, 6, 7, 6, 7, 6]
    out = backend.forward(batch.q, batch.k, batch.v, batch.layer, forward).view(14, 8, 64)
    keys, values = (buffer[batch.slots(0)].double() for buffer in batch.runner.token_to_kv_pool.get_kv_buffer(0))
    for token, seen in {8: [*range(7), 8], 10: [*range(7), 10], 11: list(range(7)), 3: [0, 1, 2, 3]}.items():
        k, v = keys[seen].repeat_interleave(4, 1), values[seen].repeat_interleave(4, 1)
        weights = (torch.einsum("hd,shd->hs", batch.q[token].double(), k) * batch.sm_scale).softmax(-1)
        assert max_error(out[token], torch.einsum("hs,shd->hd", weights, v)) <= 3e-3
