"""The adapters have SGLang's method names and parameters, version by version, and reach our backends through them."""

import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from sglab.attention import UnsupportedError, create_attention_backend
from sglab.attention.sglang import ADAPTERS, SGLang0523, SGLang059, adapt
from sglab.attention.sglang.v0_5_23 import SharedReadEnds
from sglab.engine import BadArgumentError, ForwardBatch, ForwardMode
from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference

GOLDEN = json.loads((Path(__file__).parent / "golden" / "sglang_interface.json").read_text("utf-8"))
SHAPE: dict[str, Any] = {"kind": "mha", "num_heads": 4, "num_kv_heads": 2, "head_dim": 16, "page_size": 4}


def adapted(batch: Batch, version: str, backend: str = "triton") -> Any:
    return adapt(create_attention_backend(backend, batch.runner), version)


def public(adapter: type) -> dict[str, Any]:
    names = {name for one in adapter.__mro__[:-1] for name in vars(one) if not name.startswith("_")}
    return {name: inspect.getattr_static(adapter, name) for name in names}


def signature(function: Any) -> str:
    found = inspect.signature(function)
    parameters = [each.replace(annotation=each.empty) for each in found.parameters.values()]
    return str(found.replace(parameters=parameters, return_annotation=found.empty))


@pytest.mark.parametrize("version", GOLDEN)
def test_names_and_parameters_are_upstreams(version: str) -> None:
    found, golden = public(ADAPTERS[version]), GOLDEN[version]
    assert golden["source"].startswith(f"sglang {version}, ")
    methods = {name: signature(value) for name, value in found.items() if inspect.isfunction(value)}
    assert methods == golden["methods"]
    assert set(found) - set(methods) == {*golden["properties"], *golden["attributes"]}


def test_attributes_have_upstreams_values() -> None:
    found, golden = public(SGLang0523), GOLDEN["0.5.23"]["attributes"]
    differing = {name: found[name] for name, value in golden.items() if found[name] != value}
    assert isinstance(differing.pop("forward_metadata"), property)
    assert differing == {"extend_dummy_seqs_capped_by_req_pool": True}, "as SGLang's triton has it"


@pytest.mark.parametrize("version", ADAPTERS)
def test_an_eager_pass_and_a_graph_give_our_answer(version: str) -> None:
    batch = decode_batch([20, 5], max_context_len=64, dtype="float32", **SHAPE)
    eager, expected = batch.forward_batch, reference(batch).o
    backend = adapted(batch, version)
    backend.init_forward_metadata(eager)
    rows = batch.q, batch.k, batch.v, batch.layer
    for forward in (backend.forward, backend.forward_decode):
        assert max_error(forward(*rows, eager).view(expected.shape), expected) <= 3e-6
    backend.init_cuda_graph_state(2, 2)
    assert backend.get_cuda_graph_seq_len_fill_value() == 1
    one = torch.ones_like(eager.seq_lens)
    static = replace(eager, seq_lens=one, req_pool_indices=one * 0, seq_lens_sum=2, seq_lens_cpu=None)
    capture(backend, static)
    replay(backend, eager)
    assert max_error(backend.forward(*rows, eager).view(expected.shape), expected) <= 3e-6


def capture(backend: Any, batch: ForwardBatch) -> None:
    if isinstance(backend, SGLang0523):
        backend.init_forward_metadata_out_graph(batch, in_capture=True)
        backend.init_forward_metadata_in_graph(batch)
        return
    bs, lens = batch.batch_size, batch.seq_lens
    backend.init_forward_metadata_capture_cuda_graph(
        bs, bs, batch.req_pool_indices, lens, None, batch.forward_mode, batch.spec_info
    )


def replay(backend: Any, batch: ForwardBatch) -> None:
    if isinstance(backend, SGLang0523):
        backend.init_forward_metadata_out_graph(batch)
        return
    backend.init_forward_metadata_replay_cuda_graph(
        batch.batch_size,
        batch.req_pool_indices,
        batch.seq_lens,
        batch.seq_lens_sum,
        None,
        batch.forward_mode,
        batch.spec_info,
        batch.seq_lens_cpu,
    )


def test_a_replay_without_a_capture_is_refused_in_0_5_9() -> None:
    batch = decode_batch([20, 5], max_context_len=64, **SHAPE)
    backend = adapted(batch, "0.5.9")
    backend.init_cuda_graph_state(2, 2)
    with pytest.raises(RuntimeError, match="no graph of DECODE with bs 2 was captured"):
        replay(backend, batch.forward_batch)


def test_extends_go_through_forward_extend() -> None:
    batch = extend_batch([9, 6], [4, 0], dtype="float32", **SHAPE)
    for version in ADAPTERS:
        backend = adapted(batch, version, "torch_native")
        backend.init_forward_metadata(batch.forward_batch)
        out = backend.forward_extend(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)
        assert max_error(out.view(-1, 4, 16), reference(batch).o) <= 3e-6
        assert not backend.support_triton() and backend.get_indexer_metadata(0, batch.forward_batch) is None
        chosen = torch.zeros((len(batch.q), 4), dtype=torch.int32)
        with pytest.raises(UnsupportedError, match=r"topk_indices: expected None for torch_native, got .*, 4\)"):
            backend.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch, topk_indices=chosen)
        with pytest.raises(TypeError, match="cos_sin_cache"):
            backend.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch, cos_sin_cache=None)
        with pytest.raises(NotImplementedError, match="forward_mixed: expected an Ascend NPU"):
            backend.forward_mixed(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)
        with pytest.raises(NotImplementedError, match="no CUDA graph for torch_native"):
            backend.get_cuda_graph_seq_len_fill_value()


def test_verification_masks_have_each_versions_name() -> None:
    batch = decode_batch([5], max_context_len=64, **SHAPE)
    old, new = adapted(batch, "0.5.9"), adapted(batch, "0.5.23")
    assert isinstance(old, SGLang059) and old.get_verify_buffers_to_fill_after_draft() == [None, None]
    assert isinstance(new, SGLang0523) and new.verify_mask is None and new.forward_metadata is None
    for backend in (old, new):
        backend.init_cuda_graph_state(1, 4)
        backend.update_verify_buffers_to_fill_after_draft(None, None)
    assert old.get_verify_buffers_to_fill_after_draft()[0] is old.backend.verify_mask is not None
    assert new.verify_mask is new.backend.verify_mask is not None


def test_what_0_5_23_asks_of_graphs_that_are_not_here() -> None:
    batch = decode_batch([5], max_context_len=64, **SHAPE)
    backend = adapted(batch, "0.5.23")
    fwd = batch.forward_batch
    assert backend.shared_read_ends(ForwardMode.DECODE) is SharedReadEnds.IN_REPLAY
    assert backend.shared_read_ends(ForwardMode.EXTEND) is SharedReadEnds.UNKNOWN
    assert backend.resolve_prefill_shared_read_ends(fwd, num_qo_tokens=1) is SharedReadEnds.UNKNOWN
    assert backend.glue_target_verify_metadata() and backend.glue_draft_metadata()
    assert backend.late_layer_num_tokens(fwd) is backend.get_fused_kv_write_buffers(batch.layer, fwd) is None
    for call in (
        lambda: backend.prepare_full_cuda_graph_chunked_prefix(fwd, in_capture=True),
        lambda: backend.init_forward_metadata_for_breakable_cuda_graph_capture(fwd),
        lambda: backend.prepare_forward_metadata_for_breakable_cuda_graph_replay(None, fwd),
    ):
        with pytest.raises(UnsupportedError, match="decode or verification, got prefill on triton"):
            call()


def test_other_versions_are_refused() -> None:
    batch = decode_batch([5], **SHAPE)
    with pytest.raises(BadArgumentError, match=r"version: expected 0\.5\.9 or 0\.5\.23, got '0\.4'"):
        adapted(batch, "0.4")
