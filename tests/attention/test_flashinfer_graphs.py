"""FlashInfer's own kernels in CUDA graphs: what its wrappers are given. Replays: test_cuda_graph.py."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import torch

from sglab.attention import create_attention_backend
from sglab.attention.arithmetic import flashinfer as library
from sglab.attention.arithmetic.flashinfer_graphs import GraphPlans
from sglab.attention.arithmetic.paged_rows import PagedRows
from sglab.engine import GraphBatch
from sglab.kernels.scoring import Scoring
from sglab.workbench import decode_batch
from tests.attention.golden.read_flashinfer_signatures import signatures

GOLDEN = json.loads((Path(__file__).parent / "golden" / "flashinfer_signatures.json").read_text())
"""Of flashinfer-python 0.7.2.post1."""
SCORING = Scoring(0.25)
Kind = Literal["mha", "mla"]


class Wrapper:
    """Stands for one of the library's: takes what its signature names, and notes it."""

    def __init__(self, name: str, made: list[Wrapper], *args: Any, **options: Any) -> None:
        self.name = name
        self.plans: list[dict[str, Any]] = []
        self.given = self._bound("__init__", args, options)
        made.append(self)

    def plan(self, *args: Any, **options: Any) -> None:
        self.plans.append(self._bound("plan", args, options))

    def run(self, *args: Any, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Ones, of the shape that the queries say."""
        q = self._bound("run", args, options)["query"][0]
        return torch.ones(q.shape, dtype=q.dtype), torch.ones(q.shape[:2])

    def _bound(self, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
        names = GOLDEN[self.name][method]
        positional = dict(zip(names, args, strict=False))
        assert len(positional) == len(args) and not positional.keys() & options.keys()
        names = [*names, *GOLDEN[self.name].get(f"_{method}_impl", [])]
        assert options.keys() <= set(names)
        return positional | options


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Wrapper]:
    wrappers: list[Wrapper] = []

    def of(name: str) -> Any:
        return lambda *args, **options: Wrapper(name, wrappers, *args, **options)

    def csr(*args: Any) -> dict[str, torch.Tensor]:
        return dict(zip(GOLDEN["MLAPlanMetadata"]["csr"], args, strict=True))

    here = {name: of(name) for name in GOLDEN if name != "MLAPlanMetadata"}
    mla = SimpleNamespace(MLAPlanMetadata=SimpleNamespace(csr=csr), **here)
    monkeypatch.setitem(sys.modules, "flashinfer", SimpleNamespace(mla=mla, **here))
    monkeypatch.setattr(library, "workspace", lambda _: torch.zeros(8, dtype=torch.uint8))
    return wrappers


def rows_of(lens: list[int], max_q: int = 1, **options: Any) -> PagedRows:
    indptr = torch.tensor([0, *lens]).cumsum(0).int()
    queries = torch.arange(len(lens) + 1, dtype=torch.int32) * max_q
    return PagedRows(queries, indptr, torch.arange(64, dtype=torch.int32) % 40, max_q, **options)


def layer(tokens: int, heads: int = 8, kv_heads: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    q, pool = torch.zeros(tokens, heads, 64, dtype=torch.float16), torch.zeros(40, kv_heads, 64, dtype=torch.float16)
    return q, pool, pool


def test_a_wrapper_is_planned_again_for_other_lengths_over_the_same_buffers(made: list[Wrapper]) -> None:
    plans, rows = GraphPlans(), rows_of([5, 3], causal=False)
    plans.plan(rows, None)
    wrapper = plans.of(*layer(2), rows, SCORING)
    first = made[0].plans[0]
    assert first["indptr"].tolist() == [0, 5, 8] and len(first["indices"]) == 8
    assert plans.of(*layer(2), rows, SCORING) is wrapper and len(made) == 1
    assert made[0].given["use_cuda_graph"] is True and made[0].given["use_tensor_cores"] is True
    assert made[0].given["paged_kv_indptr_buffer"] is rows.kv_indptr
    assert made[0].given["paged_kv_indices_buffer"] is rows.kv_indices
    rows.kv_indptr.copy_(torch.tensor([0, 9, 9]))
    plans.plan(rows, [9, 0])
    second = made[0].plans[1]
    assert second["indptr"].tolist() == [0, 9, 9] and len(second["indices"]) == 9
    assert second["indptr"].device.type == second["last_page_len"].device.type == "cpu" and second["page_size"] == 1
    assert wrapper.without_keys(2).tolist() == [False, True]


def test_a_window_of_a_decode_is_fewer_slots_in_buffers_of_its_own(made: list[Wrapper]) -> None:
    plans, rows = GraphPlans(), rows_of([5, 3], causal=False)
    plans.plan(rows, [5, 3])
    plans.of(*layer(2), replace(rows, window=3), SCORING)
    given, planned = made[0].given, made[0].plans[0]
    assert given["paged_kv_indptr_buffer"] is not rows.kv_indptr and len(given["paged_kv_indices_buffer"]) == 8
    assert planned["indptr"].tolist() == [0, 4, 7] and planned["window_left"] == -1
    assert planned["indices"].tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_a_tree_hands_over_its_mask_in_each_plan(made: list[Wrapper]) -> None:
    mask, starts = torch.zeros(64, dtype=torch.uint8), torch.tensor([0, 10, 16])
    mask[:16] = torch.arange(16) % 3 == 0
    plans, rows = GraphPlans(), rows_of([5, 3], 2, custom_mask=mask, mask_indptr=starts)
    plans.plan(rows, None)
    wrapper = plans.of(*layer(4), rows, SCORING)
    mask[:16] = torch.arange(16) % 2 == 0
    plans.plan(rows, None)
    assert made[0].given["backend"] == "fa2" and made[0].given["custom_mask_buf"].dtype == torch.uint8
    assert [plan["causal"] for plan in made[0].plans] == [False, False]
    assert torch.equal(made[0].plans[1]["custom_mask"], torch.arange(16) % 2 == 0)
    assert made[0].plans[0]["qo_indptr"].tolist() == [0, 2, 4]
    assert len(wrapper.without_keys(4)) == 4


def test_layers_of_two_kinds_have_two_wrappers_and_a_third_is_refused_in_a_capture(made: list[Wrapper]) -> None:
    plans, rows = GraphPlans(), rows_of([5, 3], causal=False)
    plans.plan(rows, [5, 3])
    plans.of(*layer(2), rows, SCORING)
    plans.of(*layer(2), rows, Scoring(0.25, 30.0))
    assert len(made) == 2 and made[1].plans[0]["logits_soft_cap"] == 30.0
    assert plans.refuses(*layer(2), rows, SCORING) is None
    assert "no run before the capture" in str(plans.refuses(*layer(2, 4), rows, SCORING))


def mla_layer(tokens: int, heads: int = 16) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of absorbed MLA: what the pool holds is the keys, and its first part the values."""
    pool = torch.zeros(40, 1, 576, dtype=torch.bfloat16)
    return torch.zeros(tokens, heads, 576, dtype=torch.bfloat16), pool, pool[..., :512]


def test_mla_is_planned_again_over_the_graphs_own_buffers(made: list[Wrapper]) -> None:
    """FlashInfer refuses a source that overlaps another's buffer: all but the slots come from the host."""
    plans, rows = GraphPlans(), rows_of([5, 3], 2)
    plans.plan(rows, None)
    wrapper = plans.of(*mla_layer(4), rows, SCORING)
    given = made[0].given
    assert made[0].name == "BatchMLAPagedAttentionWrapper" and given["use_cuda_graph"] is True
    assert [given[name] is getattr(rows, name) for name in ("qo_indptr", "kv_indptr", "kv_indices")] == [True] * 3
    assert given["kv_len_arr"].dtype == torch.int32 and given["kv_len_arr"].shape == (2,)
    rows.kv_indptr.copy_(torch.tensor([0, 9, 9]))
    plans.plan(rows, [9, 0])
    assert plans.of(*mla_layer(4), rows, SCORING) is wrapper and len(made) == 1
    first, second = (plan["metadata"] for plan in made[0].plans)
    assert first["kv_len_arr"].tolist() == [5, 3] and second["kv_len_arr"].tolist() == [9, 0]
    assert second["qo_indptr"].tolist() == [0, 2, 4] and second["kv_indptr"].tolist() == [0, 9, 9]
    slots = second["kv_indices"]
    assert len(slots) == 9 and slots.data_ptr() == rows.kv_indices.data_ptr() and slots.dtype == torch.int32
    own = {rows.qo_indptr.data_ptr(), rows.kv_indptr.data_ptr(), given["kv_len_arr"].data_ptr()}
    assert not own & {second[name].data_ptr() for name in ("qo_indptr", "kv_indptr", "kv_len_arr")}
    planned = made[0].plans[1]
    assert (planned["num_heads"], planned["head_dim_ckv"], planned["head_dim_kpe"]) == (16, 512, 64)
    assert planned["causal"] is True and planned["page_size"] == 1 and planned["lse_mode"] == "base2"
    o, lse = plans.run(*mla_layer(4), rows, SCORING)
    assert o.shape == (4, 16, 512) and o[2:].count_nonzero() == 0 and lse[2:].eq(-torch.inf).all()
    assert o[:2].eq(1).all() and lse[:2].sub(math.log(2)).abs().max() < 1e-6


@pytest.mark.parametrize("kind", ["mha", "mla"])
def test_a_backend_plans_before_a_capture_and_before_each_replay(made: list[Wrapper], kind: Kind) -> None:
    batch = decode_batch([5, 3], kind=kind, num_heads=16, dtype="bfloat16", pool_tokens=256, max_context_len=64)
    backend = create_attention_backend("flashinfer", replace(batch.runner, kernel_implementation="flashinfer"))
    backend.init_graph(2, 2)
    forward_batch = batch.forward_batch
    backend.prepare_capture(GraphBatch.of(forward_batch))
    metadata: Any = backend.forward_metadata
    plans = metadata.decode_wrappers[0].graph_plans if kind == "mha" else metadata.wrapper.graph_plans
    rows = metadata.decode_wrappers[0].rows() if kind == "mha" else metadata.wrapper.rows()
    assert rows.graph_plans is plans is not None
    given = mla_layer(2) if kind == "mla" else layer(2)
    plans.of(*given, rows, SCORING)
    for times in (2, 3):
        backend.prepare_replay(GraphBatch.of(forward_batch))
        assert len(made) == 1 and len(made[0].plans) == times
    last = made[0].plans[-1]
    indptr = last["metadata"]["kv_indptr"] if kind == "mla" else last["indptr"]
    assert indptr.tolist() == [0, 5, 8]


@pytest.mark.parametrize(
    ("heads", "queries", "refused"), [(16, 4, False), (128, 2, False), (20, 1, False), (20, 3, False), (20, 7, True)]
)
def test_causal_mla_whose_plan_would_depend_on_the_lengths_is_refused(
    made: list[Wrapper], monkeypatch: pytest.MonkeyPatch, heads: int, queries: int, refused: bool
) -> None:
    """A tile of 64 or 128 rows that ends within a query: FlashInfer refuses some lengths then, at a replay."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    q, keys, values = mla_layer(2 * queries, heads)
    on_gpu: Any = SimpleNamespace(device=SimpleNamespace(type="cuda"), dtype=q.dtype, shape=q.shape)
    plans, rows = GraphPlans(), rows_of([5, 3], queries)
    in_graph = replace(rows, graph_plans=plans)
    assert library.refuses(on_gpu, keys, values, rows, SCORING) is None
    assert ("do not divide" in str(library.refuses(on_gpu, keys, values, in_graph, SCORING))) is refused
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    expected = "do not divide" if refused else "no run before the capture"
    assert expected in str(library.refuses(on_gpu, keys, values, in_graph, SCORING))


@pytest.mark.skipif(importlib.util.find_spec("flashinfer") is None, reason="needs flashinfer")
def test_signatures_are_those_of_the_package_that_is_here() -> None:
    spec = importlib.util.find_spec("flashinfer")
    assert spec is not None and spec.submodule_search_locations
    here = signatures(Path(spec.submodule_search_locations[0]))
    for name, methods in GOLDEN.items():
        for method, parameters in methods.items():
            assert set(parameters) <= set(here[name][method]), f"{name}.{method}"
