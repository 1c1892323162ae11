"""The CUDA graph methods: buffers allocated once, filled before each run, padded rows kept in the dummy page."""

import importlib.util
from dataclasses import replace
from typing import Any

import pytest
import torch

from sglab.attention import AttentionBackend, create_attention_backend
from sglab.engine import ForwardBatch, ForwardMode, GraphBatch
from sglab.workbench import Batch, decode_batch, max_error, reference
from tests.support.attention import declared, every_backend, shape_of

GRAPHS = [(name, kind) for name, kind in every_backend() if declared(name, kind).graph_modes]
"""Backends with CUDA graphs, each with every kind that it serves."""

SLOW = ("triton", "wave", "cutlass_mla", "flashmla")
"""Their kernels run on the emulator here: one size is enough."""


TOLERANCE = {"float32": 3e-3, "float16": 3e-3, "bfloat16": 2.5e-2}


class Graph:
    """What a CUDA graph runner keeps: static inputs of one captured size, copied into before each replay."""

    def __init__(self, backend: AttentionBackend, batch: Batch, bs: int) -> None:
        self.backend, self.batch, self.bs = backend, batch, bs
        device, layer = batch.device, batch.layer
        fill = backend.graph_seq_len_fill_value
        self.q = torch.zeros((bs, layer.tp_q_head_num, layer.head_dim), dtype=batch.dtype, device=device)
        self.k = torch.zeros((bs, layer.tp_k_head_num, layer.head_dim), dtype=batch.dtype, device=device)
        self.v = torch.zeros((bs, layer.tp_k_head_num, layer.v_head_dim), dtype=batch.dtype, device=device)
        zeros = torch.zeros(bs, dtype=torch.int64, device=device)
        self.forward_batch = ForwardBatch(
            forward_mode=ForwardMode.DECODE,
            batch_size=bs,
            input_ids=zeros.clone(),
            req_pool_indices=zeros.clone(),
            seq_lens=torch.full_like(zeros, fill),
            out_cache_loc=zeros.clone(),
            seq_lens_sum=bs * fill,
            req_to_token_pool=batch.runner.req_to_token_pool,
            token_to_kv_pool=batch.runner.token_to_kv_pool,
        )
        backend.prepare_capture(GraphBatch.of(self.forward_batch))
        self.run = self._capture() if device.type == "cuda" else self._forward

    def _forward(self) -> torch.Tensor:
        return self.backend.forward(self.q, self.k, self.v, self.batch.layer, self.forward_batch)

    def _capture(self) -> Any:
        self._forward()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = self._forward()

        def replay() -> torch.Tensor:
            graph.replay()
            return out

        return replay

    def replay(self) -> torch.Tensor:
        batch, fwd, real = self.batch, self.forward_batch, self.batch.forward_batch
        n = batch.batch_size
        fwd.seq_lens.fill_(self.backend.graph_seq_len_fill_value)
        fwd.req_pool_indices.zero_()
        fwd.out_cache_loc.zero_()
        for static, live in (
            (fwd.seq_lens, real.seq_lens),
            (fwd.req_pool_indices, real.req_pool_indices),
            (fwd.out_cache_loc, real.out_cache_loc),
            (self.q, batch.q),
            (self.k, batch.k),
            (self.v, batch.v),
        ):
            static[:n] = live
        self.k[n:] = 7.0
        self.v[n:] = 7.0
        lens = fwd.seq_lens.cpu()
        self.backend.prepare_replay(replace(GraphBatch.of(fwd), seq_lens_cpu=lens, seq_lens_sum=int(lens.sum())))
        return self.run()[:n].view(n, batch.num_heads, -1)


def metadata_addresses(backend: Any) -> list[int]:
    return [value.data_ptr() for value in vars(backend.forward_metadata).values() if isinstance(value, torch.Tensor)]


def devices() -> list[Any]:
    gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
    return ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, gpu])]


@pytest.mark.parametrize("device", devices())
@pytest.mark.parametrize(("name", "kind"), GRAPHS)
def test_padded_replays_give_the_eager_answer_and_touch_only_the_dummy_page(name: str, kind: str, device: str) -> None:
    options = {"max_context_len": 256, "pool_tokens": 1024, "device": device, **shape_of(name, kind)}
    batch = decode_batch([20, 5, 9], layout="fragmented", **options)
    backend = create_attention_backend(name, batch.runner)
    backend.init_graph(8, 8)
    graph = Graph(backend, batch, 4)
    addresses = metadata_addresses(backend)
    page = batch.page_size
    for _ in range(2):
        pool = batch.runner.token_to_kv_pool
        before = {key: buffer.clone() for key, buffer in pool.named_buffers(0).items()}
        out = graph.replay()
        assert max_error(out, reference(batch).o) <= TOLERANCE[options["dtype"]]
        assert metadata_addresses(backend) == addresses, "the graph keeps the addresses it captured"
        for key, buffer in pool.named_buffers(0).items():
            assert torch.equal(buffer[page:], before[key][page:]), "real slots hold what they held"
            assert (buffer[0] == 7.0).all(), "the padded row wrote to slot 0"
        batch.extend_by_token(0)
        batch.free(1)
        batch.allocate(130)


@pytest.mark.parametrize(("name", "kind"), GRAPHS)
def test_smaller_graphs_reuse_the_buffers_of_the_largest(name: str, kind: str) -> None:
    shape = shape_of(name, kind)
    batch = decode_batch([20, 5], max_context_len=256, **shape)
    backend = create_attention_backend(name, batch.runner)
    backend.init_graph(8, 8)
    addresses = []
    for bs in (8, 2) if name in SLOW else (8, 4, 2):
        graph = Graph(backend, batch, bs)
        addresses.append(metadata_addresses(backend))
        assert max_error(graph.replay(), reference(batch).o) <= TOLERANCE[shape["dtype"]]
    assert all(each == addresses[0] for each in addresses)


@pytest.mark.parametrize(("name", "kind"), GRAPHS)
def test_a_capture_needs_its_state_first_and_a_decode_batch(name: str, kind: str) -> None:
    batch = decode_batch([5], max_context_len=256, **shape_of(name, kind))
    backend = create_attention_backend(name, batch.runner)
    one = torch.ones(1, dtype=torch.int64)
    decode = GraphBatch(1, 1, ForwardMode.DECODE, one, one)
    with pytest.raises(RuntimeError, match="init_graph comes before"):
        backend.prepare_capture(decode)
    backend.init_graph(1, 1)
    with pytest.raises(NotImplementedError, match=r"for (flashinfer|triton|\w+), got (NoneType with )?TARGET_VERIFY"):
        backend.prepare_capture(replace(decode, forward_mode=ForwardMode.TARGET_VERIFY))
    with pytest.raises(NotImplementedError, match=r"expected a CUDA graph of DECODE.*, got a CUDA graph of EXTEND"):
        backend.prepare_capture(replace(decode, forward_mode=ForwardMode.EXTEND))


@pytest.mark.parametrize("name", ["torch_native", "flex_attention"])
def test_the_torch_backends_have_no_graphs(name: str) -> None:
    batch = decode_batch([5], num_heads=2, kind="mha", head_dim=8)
    backend = create_attention_backend(name, batch.runner)
    with pytest.raises(NotImplementedError, match=f"expected no CUDA graph for {name}, got") as refused:
        backend.init_graph(1, 1)
    advised = str(refused.value).partition(" Use ")[2].removesuffix(".").replace(" or ", ", ").split(", ")
    assert {(other, "mha") for other in advised} <= set(GRAPHS)
    assert not backend.capabilities.triton_helpers


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(
    not torch.cuda.is_available() or importlib.util.find_spec("flashinfer") is None,
    reason="needs an NVIDIA GPU and flashinfer",
)
@pytest.mark.parametrize(
    "shape",
    [
        {"kind": "mha", "num_heads": 16, "num_kv_heads": 16, "head_dim": 128},
        {"kind": "mha", "num_heads": 16, "num_kv_heads": 4, "head_dim": 128},
        {"kind": "mla", "num_heads": 16},
        {"kind": "mla", "num_heads": 128},
    ],
    ids=["cuda cores", "tensor cores", "mla", "mla, pairs of ctas"],
)
def test_flashinfers_own_kernels_replay_for_other_lengths(shape: dict[str, Any]) -> None:
    """Padded to four rows, captured at one token each, planned for every replay."""
    options = {
        "dtype": "float16",
        "max_context_len": 8192,
        "pool_tokens": 16384,
        "device": "cuda",
        "layout": "fragmented",
        "page_size": 16,
        **shape,
    }
    batch = decode_batch([20, 5, 9], **options)
    backend = create_attention_backend("flashinfer", replace(batch.runner, kernel_implementation="flashinfer"))
    backend.init_graph(4, 4)
    graph = Graph(backend, batch, 4)
    for grown in (1, 300, 5000):
        assert max_error(graph.replay(), reference(batch).o) <= TOLERANCE["float16"]
        batch.extend_by_token(0)
        batch.free(1)
        batch.allocate(grown)
