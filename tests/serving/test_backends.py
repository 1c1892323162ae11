"""The engine gives the same tokens through the backends that serve the model: prompts, decodes, drafts, prefix hits."""

from dataclasses import replace
from typing import Any

import pytest

import sglab
from sglab.attention.capabilities import FLOATS
from sglab.attention.registry import backend_factory
from tests.support.serving.tiny import prompts, tiny_llama

SAMPLING = {"max_new_tokens": 6, "temperature": 0}


def tokens(backend: str, **options: Any) -> list[list[int]]:
    """Greedy tokens of four prompts, and of the first again, which is in the radix tree then."""
    asked = prompts(4, longest=30, seed=5)
    with sglab.Engine(tiny_llama(), attention_backend=backend, max_total_tokens=1024, **options) as engine:
        made = [*engine.generate(asked, SAMPLING), engine.generate(asked[0], SAMPLING)]
    return [list(output.token_ids) for output in made]


def takes_float32(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 16 bit two backends round differently, and greedy tokens of a random model part soon after."""
    found: Any = backend_factory(backend, "mha")
    monkeypatch.setattr(found, "capabilities", replace(found.capabilities, dtypes=FLOATS))


@pytest.fixture(scope="module")
def expected() -> list[list[int]]:
    return tokens("torch_native")


@pytest.mark.parametrize("backend", ["fa3", "flashinfer", "aiter", "ascend", "intel_amx", "trtllm_mha"])
def test_greedy_tokens_are_torch_natives(
    backend: str, expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    takes_float32(backend, monkeypatch)
    assert tokens(backend, chunked_prefill_size=128) == expected


@pytest.mark.parametrize("backend", ["fa3", "flashinfer"])
def test_drafts_are_verified_through_their_trees(
    backend: str, expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    takes_float32(backend, monkeypatch)
    drafts = {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 4}
    assert tokens(backend, **drafts) == expected


@pytest.mark.parametrize("backend", ["fa3", "flashinfer", "ascend"])
def test_captured_decodes_give_the_same(
    backend: str, expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    takes_float32(backend, monkeypatch)
    assert tokens(backend, cuda_graph=True, cuda_graph_bs=(2, 4)) == expected
