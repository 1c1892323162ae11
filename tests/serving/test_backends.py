"""The engine gives the same tokens through the backends that serve the model: prompts, decodes, drafts, prefix hits."""

from dataclasses import replace
from typing import Any

import pytest

import sglab
from sglab.attention import create_attention_backend
from sglab.attention.capabilities import FLOATS, UnsupportedError
from sglab.attention.registry import backend_factory
from sglab.serving.config import EngineConfig
from sglab.serving.graph_runner import captures_decodes
from sglab.workbench import decode_batch
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


@pytest.mark.parametrize("backend", ["fa3", "flashinfer", "aiter"])
def test_drafts_are_verified_through_their_trees(
    backend: str, expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    takes_float32(backend, monkeypatch)
    drafts = {"speculative_algorithm": "NGRAM", "speculative_num_draft_tokens": 4}
    assert tokens(backend, **drafts) == expected


@pytest.mark.parametrize("backend", ["fa3", "flashinfer", "ascend", "intel_amx", "triton"])
def test_captured_decodes_give_the_same(
    backend: str, expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    takes_float32(backend, monkeypatch)
    assert tokens(backend, cuda_graph=True, cuda_graph_bs=(2, 4)) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"attention_backend": "intel_amx", "enable_deterministic_inference": True},
            r"enable_deterministic_inference: expected False for intel_amx, got True\. It does not promise .*"
            r"Use torch_native, flashinfer or llada2_cfg_flashinfer\.$",
        ),
        (
            {"attention_backend": "torch_native", "cuda_graph": True},
            r"cuda_graph: expected no CUDA graph for torch_native, got a CUDA graph of DECODE\. Use intel_amx, ",
        ),
        (
            {"attention_backend": "flex_attention", "cuda_graph": True, "enable_deterministic_inference": True},
            "enable_deterministic_inference: expected False for flex_attention, .* Use torch_native, ascend or triton",
        ),
    ],
)
def test_what_a_backend_does_not_promise_is_refused_before_a_pass(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, passes = tiny_llama(), []
    monkeypatch.setattr(type(model), "forward", lambda *_: passes.append(1))
    with pytest.raises(UnsupportedError, match=message):
        sglab.Engine(model, max_total_tokens=256, **options)
    assert not passes


def test_graphs_by_default_ask_for_a_backend_that_has_them() -> None:
    """On a GPU: triton has them, torch_native, as in SGLang, runs without; True insists."""
    native, fa3 = (
        create_attention_backend(name, decode_batch([3], num_heads=2, num_kv_heads=1, head_dim=16).runner)
        for name in ("torch_native", "fa3")
    )
    named = EngineConfig(attention_backend="torch_native")
    assert not captures_decodes(named, native, "cuda") and not captures_decodes(named, native, "cpu")
    assert captures_decodes(replace(named, attention_backend="fa3"), fa3, "cuda")
    assert captures_decodes(EngineConfig(cuda_graph=True), native, "cpu"), "recorded operations, of no backend's own"
    with pytest.raises(UnsupportedError, match="cuda_graph: expected no CUDA graph for torch_native"):
        captures_decodes(replace(named, cuda_graph=True), native, "cuda")
