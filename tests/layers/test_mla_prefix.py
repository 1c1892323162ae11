"""MLA over a cached prefix with expanded keys and values, part by part: the attention of the absorbed way."""

from functools import partial
from typing import Any

import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.kernels.registry import record_choices
from sglab.layers import mla
from sglab.layers.mla_prefix import attend_expanded, parts_of
from sglab.models import from_config
from sglab.serving import Engine
from tests.support.deepseek import SHAPE, V3
from tests.support.models import Driver, prompts, relative_error
from tests.support.serving.tiny import tiny_llama

CONFIG: dict[str, Any] = {**SHAPE, **V3, "architectures": ["DeepseekV3ForCausalLM"], "num_nextn_predict_layers": 0}
GREEDY = {"temperature": 0, "max_new_tokens": 8}


def deepseek() -> Any:
    made = from_config(CONFIG, "float32", "cpu", 1)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if parameter.dim() > 1 and "norm" not in name:
                parameter *= 4
    return made


def test_parts_of_prefixes_are_sglangs() -> None:
    parts = parts_of([256, 512, 768, 1024], 4 * 256)
    assert [part.lens for part in parts] == [[256] * 4, [0, 256, 256, 256], [0, 0, 256, 256], [0, 0, 0, 256]]
    assert [part.starts[3] for part in parts] == [0, 256, 512, 768]
    assert parts_of([0, 0]) == [] and parts_of([]) == []
    assert [part.lens for part in parts_of([5, 0, 3], 6)] == [[2, 0, 2], [2, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("at_once", [3, 12, 131_072])
def test_chunked_prefills_are_those_of_absorbed_attention(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request with no prefix beside others, and prefixes that end in the first, a middle and the last part."""
    monkeypatch.setattr(mla, "attend_expanded", partial(attend_expanded, tokens_at_once=at_once))
    model, given = deepseek(), prompts([3, 17, 40], CONFIG["vocab_size"])
    logits = []
    for threshold in (None, 1):
        driver = Driver(model, 4, "torch_native")
        driver.runner.chunked_prefix_threshold = threshold
        with record_choices() as ran:
            logits.append(driver.prefill(given, chunk=8)[0])
        assert any(choice.operator == "merge_state_v2" for choice in ran) == bool(threshold)
    assert relative_error(logits[1], logits[0]) < 1e-5


@pytest.mark.parametrize("page_size", [1, 16])
@pytest.mark.parametrize("mixed", [False, True])
def test_tokens_of_an_engine(page_size: int, mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mla, "attend_expanded", partial(attend_expanded, tokens_at_once=20))
    model = deepseek()
    given = [[*prompts([33], CONFIG["vocab_size"])[0], *tail] for tail in ([], [4, 5], [9] * 30)]
    options = {"max_total_tokens": 512, "page_size": page_size, "chunked_prefill_size": 16, "check_invariants": True}
    wanted = Engine(model, **options).generate(given, GREEDY)
    engine = Engine(model, chunked_prefix_threshold=1, enable_mixed_chunk=mixed, **options)
    for _ in range(2):  # the second time behind what the radix tree has
        assert [one.token_ids for one in engine.generate(given, GREEDY)] == [one.token_ids for one in wanted]


def test_where_nothing_can_be_expanded_it_is_refused() -> None:
    with pytest.raises(BadArgumentError, match="chunked_prefix_threshold: expected None with a model without MLA"):
        Engine(tiny_llama(), max_total_tokens=64, chunked_prefix_threshold=8192)
    for name in ("enable_piecewise_cuda_graph", "enable_deterministic_inference"):
        with pytest.raises(BadArgumentError, match=f"chunked_prefix_threshold: expected None with {name}"):
            Engine(deepseek(), max_total_tokens=64, chunked_prefix_threshold=8192, **{name: True})


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_on_a_gpu() -> None:
    model = deepseek().cuda()
    given = [[*prompts([33], CONFIG["vocab_size"])[0], *tail] for tail in ([], [4, 5], [9] * 30)]
    options = {"max_total_tokens": 512, "chunked_prefill_size": 16, "check_invariants": True}
    wanted = Engine(model, **options).generate(given, GREEDY)
    engine = Engine(model, chunked_prefix_threshold=1, **options)
    assert [one.token_ids for one in engine.generate(given, GREEDY)] == [one.token_ids for one in wanted]
