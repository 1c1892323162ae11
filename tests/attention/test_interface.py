"""AttentionBackend, the registry and `attend`: names, dispatch, errors and what is said about a run."""

import inspect
from dataclasses import replace

import pytest
import torch

import sglab
from sglab.attention import (
    ATTENTION_BACKENDS,
    SGLANG_BACKENDS,
    AttentionBackend,
    UnknownBackendError,
    create_attention_backend,
    register_attention_backend,
)
from sglab.engine import (
    AttentionType,
    BadArgumentError,
    ForwardBatch,
    ForwardMode,
    NonFiniteKVError,
    PageTableError,
    RadixAttention,
)
from sglab.workbench import Batch, attend, decode_batch

METHODS = {
    "init_forward_metadata": ["forward_batch"],
    "init_cuda_graph_state": ["max_bs", "max_num_tokens"],
    "init_forward_metadata_capture_cuda_graph": [
        "bs",
        "num_tokens",
        "req_pool_indices",
        "seq_lens",
        "encoder_lens",
        "forward_mode",
        "spec_info",
    ],
    "init_forward_metadata_replay_cuda_graph": [
        "bs",
        "req_pool_indices",
        "seq_lens",
        "seq_lens_sum",
        "encoder_lens",
        "forward_mode",
        "spec_info",
        "seq_lens_cpu",
    ],
    "get_cuda_graph_seq_len_fill_value": [],
    "get_verify_buffers_to_fill_after_draft": [],
    "update_verify_buffers_to_fill_after_draft": ["spec_info", "cuda_graph_bs"],
    "forward": ["q", "k", "v", "layer", "forward_batch", "save_kv_cache", "kwargs"],
    "forward_decode": ["q", "k", "v", "layer", "forward_batch", "save_kv_cache", "kwargs"],
    "forward_extend": ["q", "k", "v", "layer", "forward_batch", "save_kv_cache", "kwargs"],
    "forward_mixed": ["q", "k", "v", "layer", "forward_batch", "save_kv_cache", "kwargs"],
    "support_triton": [],
    "get_indexer_metadata": ["layer_id", "forward_batch"],
}


class Recorder(AttentionBackend):
    name = "recorder"

    def __init__(self) -> None:
        self.called: list[str] = []

    def init_forward_metadata(self, forward_batch: ForwardBatch) -> None:
        self.called.append("metadata")

    def forward_decode(self, q: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        self.called.append("decode")
        return q.new_zeros(len(q), 2 * 8)

    def forward_extend(self, q: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        self.called.append("extend")
        return q.new_zeros(len(q), 2 * 8)


@pytest.fixture
def batch() -> Batch:
    return decode_batch([9, 4], num_heads=2, kind="mha", head_dim=8, page_size=4)


def test_the_interface_is_sglangs_and_only_one_method_is_abstract() -> None:
    methods = [value for value in vars(AttentionBackend).values() if inspect.isfunction(value)]
    parameters = {method.__name__: list(inspect.signature(method).parameters)[1:] for method in methods}
    assert {name: names for name, names in parameters.items() if not name.startswith("_")} == METHODS
    assert AttentionBackend.__abstractmethods__ == {"init_forward_metadata"}


@pytest.mark.parametrize("mode", ForwardMode)
def test_forward_dispatches_by_mode(batch: Batch, mode: ForwardMode) -> None:
    backend = Recorder()
    batch.forward_batch.forward_mode = mode
    out = backend.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)
    wanted = {ForwardMode.IDLE: [], ForwardMode.DECODE: ["decode"]}.get(mode, ["extend"])
    assert backend.called == wanted and out.shape == (2, 16)


@pytest.mark.parametrize("backend", [Recorder.name, *ATTENTION_BACKENDS])
@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("attn_type", AttentionType.ENCODER_ONLY, "AttentionType.DECODER, got AttentionType.ENCODER_ONLY"),
        ("attn_type", AttentionType.DECODER_BIDIRECTIONAL, "AttentionType.DECODER, got AttentionType.DECODER_B"),
        ("is_cross_attention", True, "False, got True"),
    ],
)
def test_attention_that_is_not_causal_self_attention_is_refused(
    backend: str, field: str, value: object, expected: str
) -> None:
    if backend in ("cutlass_mla", "flashmla"):
        page_size = 128 if backend == "cutlass_mla" else 64
        batch = decode_batch([9, 4], num_heads=16, kind="mla", page_size=page_size, dtype="bfloat16")
    else:
        batch = decode_batch([9, 4], num_heads=2, kind="mha")
    runs = Recorder() if backend == Recorder.name else create_attention_backend(backend, batch.runner)
    layer = replace(batch.layer, **{field: value})
    before = batch.runner.token_to_kv_pool.get_key_buffer(0).clone()
    with pytest.raises(BadArgumentError, match=rf"layer\.{field}: expected {expected}"):
        runs.forward(batch.q, batch.k, batch.v, layer, batch.forward_batch)
    assert torch.equal(batch.runner.token_to_kv_pool.get_key_buffer(0), before)


def test_what_a_backend_leaves_out_is_refused_by_name(batch: Batch) -> None:
    backend = Recorder()
    assert backend.get_verify_buffers_to_fill_after_draft() == [None, None]
    assert backend.support_triton() and backend.get_indexer_metadata(0, batch.forward_batch) is None
    with pytest.raises(NotImplementedError, match="'recorder' does not support CUDA graphs"):
        backend.get_cuda_graph_seq_len_fill_value()
    with pytest.raises(NotImplementedError, match="speculative verification"):
        backend.update_verify_buffers_to_fill_after_draft(None, None)
    with pytest.raises(NotImplementedError, match="a mixed kernel"):
        backend.forward_mixed(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)


def test_the_decorator_registers_a_factory(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglab.attention.registry.ATTENTION_BACKENDS", {})
    register_attention_backend("mine")(lambda runner: Recorder())
    assert isinstance(create_attention_backend("mine", batch.runner), Recorder)


def test_sglangs_seventeen_backends_are_listed() -> None:
    for names in SGLANG_BACKENDS.values():
        assert len(names) == len(set(names)) == 17 and set(ATTENTION_BACKENDS) <= set(names)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (5, "backend: expected the name of one, got 5; choose one of cutlass_mla"),
        ("tritn", r"unknown attention backend 'tritn'; known are cutlass_mla, .*Did you mean 'triton'\?"),
        ("torch-native", r"Did you mean 'torch_native'\?"),
        ("zebra", "known are cutlass_mla, flashmla, flex_attention, torch_native, triton.$"),
        ("wave", "'wave' is one of SGLang's, but sglab does not have it; choose one of cutlass_mla"),
    ],
)
def test_an_unknown_backend_is_refused_with_a_suggestion(batch: Batch, name: str, message: str) -> None:
    with pytest.raises(UnknownBackendError, match=message):
        attend(batch, name)


def test_attend_is_reached_from_sglab_and_says_what_ran(batch: Batch) -> None:
    out = sglab.attend(batch, "triton")
    info = out.info
    assert (info.backend, info.reason, info.mode) == ("triton", "asked for by name", "decode")
    assert [run.operator for run in info.runs] == [
        "create_flashinfer_kv_indices",
        "get_num_kv_splits",
        "decode_attention_fwd",
    ]
    assert all(run.implementation == "triton" and run.reason for run in info.runs)
    assert "decode_attention_fwd: triton on" in str(info)
    other = sglab.attend(batch, "triton", implementation="reference").info
    assert {run.implementation for run in other.runs} == {"reference"} and {run.machine for run in other.runs} == {
        "cpu"
    }


def test_without_a_name_sglangs_choice_runs_with_its_reason(batch: Batch) -> None:
    info = sglab.attend(batch).info
    assert info.backend in ATTENTION_BACKENDS and "SGLang" in info.reason


def test_a_backend_object_may_be_passed(batch: Batch) -> None:
    backend = Recorder()
    assert attend(batch, backend).info.reason == "this backend object was passed"
    assert backend.called == ["metadata", "decode"]


def test_a_bad_batch_is_refused_before_anything_runs(batch: Batch) -> None:
    backend = Recorder()
    slot = int(batch.slots(0)[0])
    batch.runner.token_to_kv_pool.get_key_buffer(0)[slot] = float("nan")
    with pytest.raises(NonFiniteKVError, match=f"slot {slot}"):
        attend(batch, backend)
    assert backend.called == []
    attend(batch, backend, check=False)
    assert backend.called == ["metadata", "decode"]
    batch.runner.token_to_kv_pool.get_key_buffer(0)[slot] = 0.0
    batch.req_to_token[0, 0] = -5
    with pytest.raises(PageTableError):
        attend(batch, "torch_native")


def test_metadata_comes_before_forward(batch: Batch) -> None:
    for name in ("triton",):
        backend = create_attention_backend(name, batch.runner)
        with pytest.raises(RuntimeError, match="init_forward_metadata comes before forward"):
            backend.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)


def test_a_layer_knows_its_dims() -> None:
    layer = RadixAttention(8, 2, 64, 0.125)
    assert (layer.v_head_dim, layer.qk_head_dim, layer.tp_v_head_num) == (64, 64, 2)


def test_attend_refuses_what_is_no_batch_and_implementations_a_backend_does_not_have(batch: Batch) -> None:
    with pytest.raises(BadArgumentError, match="batch: expected a Batch, got list"):
        attend([batch])  # type: ignore[arg-type]
    for backend in ("torch_native", "flex_attention"):
        with pytest.raises(
            BadArgumentError, match=f"implementation: expected 'auto' or 'torch' for {backend}, got 'triton'"
        ):
            attend(batch, backend, implementation="triton")
    with pytest.raises(ValueError, match="implementation must be one of 'auto', 'triton', 'reference'; got 'cuda'"):
        attend(batch, "triton", implementation="cuda")
