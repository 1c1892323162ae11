"""Models of other kinds through the engine: latent KV, sinks and windows, recurrent states."""

import pytest

from sglab.attention import UnsupportedError
from sglab.engine import BadArgumentError
from sglab.serving import Engine
from tests.support.serving.families import FAMILIES, model
from tests.support.serving.tiny import prompts

GREEDY = {"temperature": 0, "max_new_tokens": 14}


@pytest.mark.parametrize("name", FAMILIES)
def test_tokens_do_not_depend_on_scheduling(name: str) -> None:
    made, given = model(name), prompts(5, 30)
    alone = [
        Engine(made, disable_radix_cache=True, max_total_tokens=128).generate(prompt, GREEDY).token_ids
        for prompt in given
    ]
    small = {"max_total_tokens": 112, "schedule_conservativeness": 0.05}
    cut = {"chunked_prefill_size": 8, "enable_mixed_chunk": True, "disable_overlap_schedule": False}
    for options in ({"page_size": 4, **small}, {"page_size": 8, **cut, "max_total_tokens": 256}):
        with Engine(made, check_invariants=True, **options) as engine:
            for _ in range(2):
                assert [output.token_ids for output in engine.generate(given, GREEDY)] == alone, options


@pytest.mark.parametrize("name", FAMILIES)
def test_captured_passes_leave_the_states_of_others_alone(name: str) -> None:
    made, given = model(name), prompts(3, 20)
    plain = Engine(made, max_total_tokens=256).generate(given, GREEDY)
    pieces = {"enable_piecewise_cuda_graph": name in ("Qwen3ForCausalLM", "GptOssForCausalLM")}
    engine = Engine(made, max_total_tokens=256, cuda_graph=True, cuda_graph_bs=(1, 4), **pieces)
    captured = engine.generate(given, GREEDY)
    assert [one.token_ids for one in captured] == [one.token_ids for one in plain]
    assert {replay.bs for replay in engine.worker.graph_runner.replays} <= {1, 4}


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "Qwen3NextForCausalLM"])
@pytest.mark.parametrize("algorithm", ["NGRAM", "STANDALONE"])
def test_drafts_change_no_token(name: str, algorithm: str) -> None:
    """Trees of drafts, also where a layer has a window: it counts along a draft's own path."""
    made = model(name)
    given = [[3, 4, 5, 6] * 5, *prompts(3, 30)]
    plain = Engine(made, max_total_tokens=512).generate(given, GREEDY)
    more = {"draft_model": made, "speculative_eagle_topk": 2} if algorithm == "STANDALONE" else {}
    options = {"speculative_algorithm": algorithm, "speculative_num_draft_tokens": 6, **more}
    engine = Engine(made, max_total_tokens=512, check_invariants=True, **options)
    drafted = engine.generate(given, GREEDY)
    assert [one.token_ids for one in drafted] == [one.token_ids for one in plain]
    assert sum(step.accepted for step in engine.history.steps) > 0


def test_drafts_that_a_backend_does_not_verify_are_refused_before_anything_runs() -> None:
    for name, backend, argument in (
        ("GptOssForCausalLM", "wave", "layer.sliding_window_size"),
        ("Qwen3ForCausalLM", "flex_attention", "forward_batch.forward_mode"),
    ):
        made = model(name).bfloat16()
        with pytest.raises(UnsupportedError, match=f"{argument}: expected .* for {backend}, got .*torch_native"):
            Engine(made, attention_backend=backend, speculative_algorithm="NGRAM", max_total_tokens=128)


@pytest.mark.parametrize(
    "options", [{"enable_hierarchical_cache": True}, {"speculative_algorithm": "NGRAM"}], ids=["host cache", "drafts"]
)
def test_states_can_neither_be_shared_nor_rolled_back(options: dict) -> None:
    with pytest.raises(BadArgumentError, match="none with a model that keeps recurrent states"):
        Engine(model("Qwen3NextForCausalLM"), max_total_tokens=128, **options)


def test_the_model_that_ships_continues_what_it_was_taught() -> None:
    engine = Engine("tiny", device="cpu", max_total_tokens=512, cuda_graph=True, cuda_graph_bs=(1,))
    sampling = {"temperature": 0, "max_new_tokens": 4, "stop": "\n"}
    assert engine.generate("12 + 7 = ", sampling).text == "19"
    assert len(engine.worker.graph_runner.replays) >= 2
