"""cutlass_mla: decode through the operator with its page table and workspace, everything else through the fallback."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import sglab
from sglab.attention import create_attention_backend
from sglab.attention.cutlass_mla_backend import CutlassMLABackend
from sglab.engine import BadArgumentError, ForwardMode, GraphBatch
from sglab.workbench import Batch, decode_batch, extend_batch, max_error, reference


def backend_of(batch: Batch) -> CutlassMLABackend:
    made = create_attention_backend("cutlass_mla", batch.runner)
    assert isinstance(made, CutlassMLABackend)
    return made


@pytest.mark.parametrize("page_size", [16, 64, 128])
@pytest.mark.parametrize("layout", ["contiguous", "fragmented"])
def test_decode_agrees_with_the_reference(page_size: int, layout: Any) -> None:
    batch = decode_batch([130, 1, 128, 257], num_heads=16, page_size=page_size, layout=layout, seed=page_size)
    out = sglab.attend(batch, "cutlass_mla")
    assert max_error(out, reference(batch).o) <= 2e-3
    assert [run.operator for run in out.info.runs] == [
        "create_flashmla_kv_indices",
        "set_mla_kv_buffer",
        "cutlass_mla_decode",
    ]


def test_the_triton_implementation_agrees_too() -> None:
    batch = decode_batch([130, 5], num_heads=16, page_size=128)
    out = sglab.attend(batch, "cutlass_mla", implementation="triton")
    assert max_error(out, reference(batch).o) <= 2e-3
    assert {run.implementation for run in out.info.runs if run.operator == "cutlass_mla_decode"} == {"triton"}


def test_the_page_table_lists_each_requests_pages_and_pads_with_minus_one() -> None:
    batch = decode_batch([300, 100, 129], num_heads=2, page_size=128, layout="fragmented")
    backend = backend_of(batch)
    backend.prepare(batch.forward_batch)
    table = backend.forward_metadata.block_kv_indices
    assert table.dtype == torch.int32 and table.shape == (3, 3)
    for i in range(3):
        pages = batch.pages(i)
        assert table[i].tolist() == pages + [-1] * (3 - len(pages))
    assert len(backend.forward_metadata.workspace) == (4 * 512 + 4) * 128 * 3


@pytest.mark.parametrize(("max_context_len", "pages"), [(300, 3), (256, 3), (257, 3), (255, 2)])
def test_a_graphs_page_table_is_as_wide_as_sglangs(max_context_len: int, pages: int) -> None:
    """(max_context_len + page_size) // page_size, by SGLang 0.5.9's init_cuda_graph_state."""
    batch = decode_batch([9], num_heads=2, page_size=128, max_context_len=max_context_len)
    backend = backend_of(batch)
    backend.init_graph(4, 4)
    one = torch.ones(4, dtype=torch.int64)
    backend.prepare_capture(GraphBatch(4, 4, ForwardMode.DECODE, one * 0, one))
    assert backend.forward_metadata.block_kv_indices.shape == (4, pages)


def test_small_pages_pad_whole_tiles_with_the_dummy_page() -> None:
    batch = decode_batch([40, 20], num_heads=2, page_size=32)
    backend = backend_of(batch)
    backend.prepare(batch.forward_batch)
    table = backend.forward_metadata.block_kv_indices
    assert table.shape == (2, 4), "whole 128-token tiles"
    assert table[0].tolist() == [*batch.pages(0), 0, 0] and table[1].tolist() == [*batch.pages(1), 0, 0, 0]


def test_extend_goes_to_the_fallback_and_says_so() -> None:
    batch = extend_batch([40, 9], [20, 0], num_heads=2, page_size=128)
    out = sglab.attend(batch, "cutlass_mla")
    assert max_error(out, reference(batch).o) <= 2e-3
    assert any("EXTEND is served by flashinfer" in note for note in out.info.notes)
    assert "attend_rows" in [run.operator for run in out.info.runs]


def test_speculation_goes_to_the_fallback() -> None:
    batch = decode_batch([9], num_heads=2, page_size=128)
    batch.forward_batch.spec_info = SimpleNamespace()
    with pytest.raises(NotImplementedError, match="for flashinfer, got SimpleNamespace with DECODE"):
        sglab.attend(batch, "cutlass_mla")


def test_whole_and_split_queries_are_the_same() -> None:
    batch = decode_batch([140, 3], num_heads=4, page_size=128)
    backend = backend_of(batch)
    backend.prepare(batch.forward_batch)
    whole = backend.forward(batch.q, batch.k, batch.v, batch.layer, batch.forward_batch)
    assert torch.equal(whole.view(2, 4, 512), sglab.attend(batch, "cutlass_mla"))


def test_what_it_cannot_serve_is_refused() -> None:
    with pytest.raises(BadArgumentError, match=r"an MLA batch for cutlass_mla.*Build it with kind"):
        sglab.attend(decode_batch([9], num_heads=2, kind="mha", page_size=128), "cutlass_mla")
    with pytest.raises(
        BadArgumentError, match="page_size: expected 1, 2, 4, 8, 16, 32, 64 or 128 for cutlass_mla, got 256"
    ):
        sglab.attend(decode_batch([9], num_heads=2, page_size=256), "cutlass_mla")
    with pytest.raises(ValueError, match=r"q: expected float16 or bfloat16 for cutlass_mla, got float32. Use .*triton"):
        sglab.attend(decode_batch([9], num_heads=2, page_size=128, dtype="float32"), "cutlass_mla")


def test_other_page_sizes_are_noted() -> None:
    out = sglab.attend(decode_batch([9], num_heads=2, page_size=64), "cutlass_mla")
    assert any("cp.async" in note for note in out.info.notes)


def test_on_the_cpu_decode_runs_a_kernel_on_the_emulator_rather_than_the_reference() -> None:
    pytest.importorskip("triton")
    info = sglab.attend(decode_batch([200, 9], num_heads=8, page_size=128), "cutlass_mla").info
    ran = {run.operator: (run.implementation, run.machine) for run in info.runs}
    assert ran["cutlass_mla_decode"] == ("sglab", "emulator")
    assert ran["create_flashmla_kv_indices"] == ("triton", "emulator")
