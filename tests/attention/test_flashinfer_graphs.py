"""FlashInfer's own kernels in CUDA graphs: what its wrappers are given. Replays: test_cuda_graph.py."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sglab.attention.arithmetic import flashinfer as library
from sglab.attention.arithmetic.flashinfer_graphs import GraphPlans
from sglab.attention.arithmetic.paged_rows import PagedRows
from sglab.kernels.scoring import Scoring
from tests.attention.golden.read_flashinfer_signatures import signatures

GOLDEN = json.loads((Path(__file__).parent / "golden" / "flashinfer_signatures.json").read_text())
"""Of flashinfer-python 0.7.2.post1."""
SCORING = Scoring(0.25)


class Wrapper:
    """Stands for one of the library's: takes what its signature names, and notes it."""

    def __init__(self, name: str, made: list[Wrapper], *args: Any, **options: Any) -> None:
        self.name, self.plans = name, []
        self.given = self._bound("__init__", args, options)
        made.append(self)

    def plan(self, *args: Any, **options: Any) -> None:
        self.plans.append(self._bound("plan", args, options))

    def _bound(self, method: str, args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
        names = GOLDEN[self.name][method]
        positional = dict(zip(names, args, strict=False))
        assert len(positional) == len(args) and not positional.keys() & options.keys()
        assert "**" in names or options.keys() <= set(names)
        return positional | options


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Wrapper]]:
    wrappers: list[Wrapper] = []

    def of(name: str) -> Any:
        return lambda *args, **options: Wrapper(name, wrappers, *args, **options)

    monkeypatch.setitem(sys.modules, "flashinfer", SimpleNamespace(**{name: of(name) for name in GOLDEN}))
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


@pytest.mark.skipif(importlib.util.find_spec("flashinfer") is None, reason="needs flashinfer")
def test_signatures_are_those_of_the_package_that_is_here() -> None:
    spec = importlib.util.find_spec("flashinfer")
    assert spec is not None and spec.submodule_search_locations
    here = signatures(Path(spec.submodule_search_locations[0]))
    for name, methods in GOLDEN.items():
        for method, parameters in methods.items():
            assert set(parameters) <= set(here[name][method]), f"{name}.{method}"
