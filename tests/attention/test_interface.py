"""AttentionBackend, the registry and `attend`: names, dispatch, errors and what is said about a run."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

import sglab
from sglab.attention import (
    ATTENTION_BACKENDS,
    SGLANG_BACKENDS,
    AttentionBackend,
    AttentionInputs,
    UnknownBackendError,
    UnsupportedError,
    capabilities_by_name,
    create_attention_backend,
    register_attention_backend,
)
from sglab.attention.capabilities import CAUSAL_MODES
from sglab.attention.registry import backend_factory
from sglab.attention.upstream import ABSENT
from sglab.engine import (
    AttentionType,
    BadArgumentError,
    ForwardBatch,
    ForwardMode,
    GraphBatch,
    NonFiniteKVError,
    PageTableError,
    RadixAttention,
)
from sglab.workbench import Batch, attend, decode_batch
from tests.support.attention import declared, every_backend, shape_of

METHODS = {
    "refuse_layer": ["layer"],
    "prepare": ["forward_batch"],
    "forward": [
        *("q", "k", "v", "layer", "forward_batch", "save_kv_cache", "q_rope", "k_rope", "sinks", "topk_indices"),
        *("slopes", "score_mod"),
    ],
    "attend": ["inputs"],
    "attend_partial": ["inputs"],
    "init_graph": ["max_bs", "max_num_tokens"],
    "prepare_capture": ["graph_batch"],
    "prepare_replay": ["graph_batch"],
    "fill_in_graph": ["graph_batch"],
    "choose_tokens": ["q", "keys", "weights", "topk", "forward_batch"],
    "index_rows": ["forward_batch"],
    "redo_verify_metadata": ["spec_info", "graph_bs"],
    "refuse_unserved": ["demand", "argument"],
}


class Recorder(AttentionBackend):
    name = "recorder"

    def __init__(self) -> None:
        self.called: list[str] = []

    def prepare(self, forward_batch: ForwardBatch) -> None:
        super().prepare(forward_batch)
        self.called.append("prepare")

    def attend(self, inputs: AttentionInputs) -> torch.Tensor:
        self.called.append(inputs.forward_batch.forward_mode.name)
        return inputs.q.new_zeros(len(inputs.q), 2, 8)


@pytest.fixture
def batch() -> Batch:
    return decode_batch([9, 4], num_heads=2, kind="mha", head_dim=8, page_size=4)


def test_the_interface_is_small_and_only_one_method_is_abstract() -> None:
    methods = [value for value in vars(AttentionBackend).values() if inspect.isfunction(value)]
    parameters = {method.__name__: list(inspect.signature(method).parameters)[1:] for method in methods}
    assert {name: names for name, names in parameters.items() if not name.startswith("_")} == METHODS
    assert AttentionBackend.__abstractmethods__ == {"attend"}


@pytest.mark.parametrize("mode", ForwardMode)
def test_forward_runs_the_modes_that_are_declared_and_refuses_the_others(batch: Batch, mode: ForwardMode) -> None:
    backend = Recorder()
    batch.forward_batch.forward_mode = mode
    if mode not in CAUSAL_MODES:
        for call in (lambda: backend.prepare(batch.forward_batch), lambda: attended(backend, batch)):
            with pytest.raises(
                UnsupportedError, match=f"forward_mode: expected EXTEND, .* for recorder, got {mode.name}"
            ):
                call()
        assert backend.called == []
        return
    out = attended(backend, batch)
    assert backend.called == ([] if mode is ForwardMode.IDLE else [mode.name]) and out.shape == (2, 16)


def attended(backend: AttentionBackend, batch: Batch) -> torch.Tensor:
    return backend.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)


@pytest.mark.parametrize("backend", [Recorder.name, *ATTENTION_BACKENDS])
@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("attn_type", AttentionType.ENCODER_ONLY, "AttentionType.DECODER for {}, got AttentionType.ENCODER_ONLY"),
        ("attn_type", AttentionType.DECODER_BIDIRECTIONAL, "AttentionType.DECODER for {}, got AttentionType.DECODER_B"),
        ("is_cross_attention", True, "False for {}, got True"),
    ],
)
def test_attention_that_is_not_causal_self_attention_is_refused(
    backend: str, field: str, value: object, expected: str
) -> None:
    kinds = [kind for name, kind in every_backend() if name == backend] or ["mha"]
    shape = {"num_heads": 2, "kind": "mha"} if backend == Recorder.name else shape_of(backend, kinds[0])
    batch = decode_batch([9, 4], **shape)
    runs = Recorder() if backend == Recorder.name else create_attention_backend(backend, batch.runner)
    layer = replace(batch.layer, **{field: value})
    before = batch.runner.token_to_kv_pool.get_key_buffer(0).clone()
    crosses = field == "is_cross_attention" and batch.kind == "mha"
    remedy = "Use " if crosses or field == "attn_type" else "(No backend here serves it|Use )"
    message = rf"layer\.{field}: expected {expected.format(backend)}.* {remedy}"
    if field == "is_cross_attention" and backend != Recorder.name and declared(backend, kinds[0]).cross_attention:
        message = r"forward_batch\.encoder_lens: expected a tensor for a cross-attention layer, got None"
    if field == "attn_type" and backend != Recorder.name and declared(backend, kinds[0]).bidirectional:
        return  # test_matrix asks it for these
    with pytest.raises(BadArgumentError, match=message):
        runs.forward(batch.q, batch.k, batch.v, layer, batch.forward_batch)
    assert torch.equal(batch.runner.token_to_kv_pool.get_key_buffer(0), before)


def test_what_a_backend_leaves_out_is_refused_by_name(batch: Batch) -> None:
    backend, graph_batch = Recorder(), GraphBatch.of(batch.forward_batch)
    assert backend.verify_mask is None and backend.serving is backend
    graphs: list[Callable[[], None]] = [
        lambda: backend.init_graph(2, 2),
        lambda: backend.prepare_capture(graph_batch),
        lambda: backend.prepare_replay(graph_batch),
    ]
    for call in graphs:
        expected = "graph_batch.forward_mode: expected no CUDA graph for recorder, got a CUDA graph of"
        with pytest.raises(NotImplementedError, match=f"{expected}.* Use .*triton"):
            call()
    with pytest.raises(NotImplementedError, match="verify_mask: expected a backend that verifies trees, got recorder"):
        backend.redo_verify_metadata(None, None)


def test_a_misspelt_argument_is_an_error(batch: Batch) -> None:
    for name in ATTENTION_BACKENDS:
        kind = next(kind for each, kind in every_backend() if each == name)
        served = decode_batch([9], **shape_of(name, kind))
        backend = create_attention_backend(name, served.runner)
        backend.prepare(served.forward_batch)
        with pytest.raises(TypeError, match="unexpected keyword argument 'snks'"):
            backend.forward(served.q, served.k, served.v, served.layer, served.forward_batch, snks=torch.ones(16))


def test_rows_of_a_wrong_shape_are_refused_by_name(batch: Batch) -> None:
    backend = Recorder()
    q, k, v, layer, forward_batch = batch.q, batch.k, batch.v, batch.layer, batch.forward_batch
    with pytest.raises(BadArgumentError, match=r"k: expected shape \(2, 2, 8\) or \(2, 16\), got \(2, 2, 4\)"):
        backend.forward(q, k[..., :4], v, layer, forward_batch)
    with pytest.raises(BadArgumentError, match=r"v: expected shape .*, got \(1, 2, 8\)"):
        backend.forward(q, k, v[:1], layer, forward_batch)
    with pytest.raises(BadArgumentError, match="save_kv_cache: expected False without k and v"):
        backend.forward(q, None, None, layer, forward_batch)
    backend.forward(q, None, None, layer, forward_batch, save_kv_cache=False)
    backend.forward(q.flatten(1), k.flatten(1), v.flatten(1), layer, forward_batch)
    assert backend.called == ["DECODE", "DECODE"]


def test_the_decorator_registers_a_factory(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglab.attention.registry.ATTENTION_BACKENDS", {})
    register_attention_backend("mine")(lambda runner: Recorder())
    assert isinstance(create_attention_backend("mine", batch.runner), Recorder)


def test_a_class_gets_the_name_it_is_registered_under_and_no_shipped_backend_is_replaced_unawares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sglab.attention.registry.ATTENTION_BACKENDS", dict(ATTENTION_BACKENDS))
    mine = register_attention_backend("mine")(type("Mine", (Recorder,), {}))
    assert mine.name == "mine" and "mine" in capabilities_by_name()
    assert register_attention_backend("other")(type("Other", (mine,), {})).name == "other"
    assert register_attention_backend("alias")(type("Named", (mine,), {"name": "named"})).name == "named"
    with pytest.raises(ValueError, match="expected one that sglab does not ship; got 'triton'"):
        register_attention_backend("triton")
    register_attention_backend("triton", replace=True)(mine)
    with pytest.raises(ValueError, match="expected a name"):
        register_attention_backend("")
    with pytest.raises(TypeError, match="expected a backend's class or a function"):
        register_attention_backend("three")(3)  # type: ignore[type-var]


def test_sglangs_backends_are_listed() -> None:
    sizes = {version: len(names) for version, names in SGLANG_BACKENDS.items()}
    assert sizes == {"0.5.5.post1": 17, "0.5.9": 17, "0.5.23": 23}
    for version, names in SGLANG_BACKENDS.items():
        assert len(names) == len(set(names))
        gone = (
            {"cutlass_mla", "dual_chunk_flash_attn"}
            if version == "0.5.23"
            else {"cutedsl_mla", "dsa", "hpc_ops", "llada2_cfg_flashinfer"}
        )
        assert set(ATTENTION_BACKENDS) - set(names) == {*gone, "double_sparsity"}, "a flag of its own, not a name"


def test_every_name_of_sglangs_is_here_or_its_absence_explained() -> None:
    for name in {name for names in SGLANG_BACKENDS.values() for name in names}:
        assert (name in ATTENTION_BACKENDS) != (name in ABSENT), name
    for name, absent in ABSENT.items():
        assert absent.nearest in ATTENTION_BACKENDS
        with pytest.raises(UnknownBackendError) as refused:
            backend_factory(name)
        assert absent.what in str(refused.value) and absent.why in str(refused.value)


def test_importing_the_package_imports_neither_torch_nor_a_backend() -> None:
    """And making one backend imports that one alone."""
    script = """if True:
        import sys
        import sglab.attention
        assert "torch" not in sys.modules and not [m for m in sys.modules if m.startswith("sglab.attention.")]
        assert len(dir(sglab.attention)) > 19
        sglab.attention.ATTENTION_BACKENDS, sglab.attention.AttentionBackend
        from sglab.attention.registry import backend_factory
        backend_factory("torch_native")
        loaded = {m.rpartition(".")[2] for m in sys.modules if m.startswith("sglab.attention.")}
        assert "torch_native" in loaded
        assert not loaded & {"cutlass_mla_backend", "flashmla_backend", "flex_attention", "triton_backend"}, loaded
    """
    subprocess.run([sys.executable, "-c", script], check=True)
    with pytest.raises(AttributeError, match=r"module 'sglab\.attention' has no attribute 'nothing'"):
        sglab.attention.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (5, "backend: expected the name of one, got 5; choose one of aiter, ascend"),
        ("tritn", r"unknown attention backend 'tritn'; known are aiter, ascend, .*Did you mean 'triton'\?"),
        ("torch-native", r"Did you mean 'torch_native'\?"),
        ("zebra", "known are aiter, .*, trtllm_mha, trtllm_mla, wave.$"),
        (
            "qsa",
            r"'qsa' is one of SGLang's, but .*: it is Qwen4-Exp's .* The nearest here is 'dsa'; choose one of aiter",
        ),
    ],
)
def test_an_unknown_backend_is_refused_with_a_suggestion(batch: Batch, name: str, message: str) -> None:
    with pytest.raises(UnknownBackendError, match=message):
        attend(batch, name)


def test_attend_is_reached_from_sglab_and_says_what_ran(batch: Batch) -> None:
    out = sglab.attend(batch, "triton")
    info = out.info
    assert (info.backend, info.reason, info.mode) == ("triton", "requested by name", "decode")
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
    assert backend.called == ["prepare", "DECODE"]


def test_a_bad_batch_is_refused_before_anything_runs(batch: Batch) -> None:
    backend = Recorder()
    slot = int(batch.slots(0)[0])
    batch.runner.token_to_kv_pool.get_key_buffer(0)[slot] = float("nan")
    with pytest.raises(NonFiniteKVError, match=f"slot {slot}"):
        attend(batch, backend)
    assert backend.called == []
    attend(batch, backend, check=False)
    assert backend.called == ["prepare", "DECODE"]
    batch.runner.token_to_kv_pool.get_key_buffer(0)[slot] = 0.0
    batch.req_to_token[0, 0] = -5
    with pytest.raises(PageTableError):
        attend(batch, "torch_native")


def test_metadata_comes_before_forward(batch: Batch) -> None:
    for name in ("triton",):
        backend = create_attention_backend(name, batch.runner)
        with pytest.raises(RuntimeError, match="prepare comes before forward"):
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
