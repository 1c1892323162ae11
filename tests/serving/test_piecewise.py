"""Extend passes in captured pieces between their attention layers: sizes, padding, the same tokens."""

import pytest
import torch

from sglab.engine import BadArgumentError
from sglab.serving import Engine
from sglab.serving.piecewise_runner import PiecewiseGraphRunner
from tests.support.serving.families import model
from tests.support.serving.tiny import prompts, tiny_llama

GREEDY = {"temperature": 0, "max_new_tokens": 8, "ignore_eos": True}


def engine(given: object = None, **options: object) -> Engine:
    made = {"enable_piecewise_cuda_graph": True, "piecewise_cuda_graph_tokens": (8, 32, 128), **options}
    return Engine(given or tiny_llama(), max_total_tokens=1024, check_invariants=True, **made)


def runner_of(made: Engine) -> PiecewiseGraphRunner:
    runner = made.worker.piecewise_runner
    assert runner is not None
    return runner


def test_sizes_are_sglangs_up_to_a_chunk_and_captured_from_the_largest_down() -> None:
    described = runner_of(engine(piecewise_cuda_graph_tokens=None, chunked_prefill_size=64)).describe()
    assert described["capture_tokens"] == [4, 8, 12, 16, 20, 24, 28, 32, 48, 64]
    assert [graph["tokens"] for graph in described["captured"]] == described["capture_tokens"][::-1]


def test_a_piece_lies_between_two_attention_layers_and_none_contains_attention() -> None:
    made = engine()
    for graph in runner_of(made).captured.values():
        assert len(graph.pieces) == len(graph.calls) + 1 == 3
        assert [call.layer.layer_id for call in graph.calls] == [0, 1]
        assert all(piece.launches for piece in graph.pieces)


def test_passes_are_padded_to_the_next_size_and_too_long_ones_run_without() -> None:
    made = engine()
    made.generate([list(range(1, 6)), list(range(2, 9))], GREEDY)  # 5 + 7 tokens
    made.generate([[1] * 150], GREEDY)
    assert [(one.raw_tokens, one.tokens) for one in runner_of(made).replays] == [(12, 32)]


@pytest.mark.parametrize(
    "options", [{}, {"chunked_prefill_size": 16, "enable_mixed_chunk": True}], ids=["whole", "mixed"]
)
def test_tokens_are_those_of_the_operations(options: dict) -> None:
    given = prompts(6, 40, seed=3)
    plain = Engine(tiny_llama(), max_total_tokens=1024).generate(given, GREEDY)
    made = engine(**options)
    for _ in range(2):  # the second time on prefixes from the radix tree
        assert [one.token_ids for one in made.generate(given, GREEDY)] == [one.token_ids for one in plain]
    assert runner_of(made).replays


@pytest.mark.parametrize("name", ["Qwen3ForCausalLM", "DeepseekV2ForCausalLM"])
def test_latent_attention_and_experts_are_cut_alike(name: str) -> None:
    given = prompts(4, 30, seed=5)
    plain = Engine(model(name), max_total_tokens=1024).generate(given, GREEDY)
    made = engine(model(name))
    assert [one.token_ids for one in made.generate(given, GREEDY)] == [one.token_ids for one in plain]
    assert runner_of(made).replays


def test_padded_tokens_write_no_keys() -> None:
    made = engine(disable_radix_cache=True)
    pool = made.runner.token_to_kv_pool
    buffers = [pool.get_key_buffer(layer) for layer in range(2)]
    for buffer in buffers:
        buffer.fill_(7.0)
    made.generate([[3, 1, 4, 1, 5]], {**GREEDY, "max_new_tokens": 1})
    for buffer in buffers:
        assert int((buffer != 7.0).flatten(1).any(1).sum()) == 5


def test_pieces_read_and_write_the_recorded_addresses() -> None:
    made = engine()
    graph = runner_of(made).captured[8]
    addresses = [(call.q.data_ptr(), call.out.data_ptr()) for call in graph.calls]
    made.generate([[1, 2, 3]], GREEDY)
    assert [(call.q.data_ptr(), call.out.data_ptr()) for call in graph.calls] == addresses
    assert {pointer for launch in graph.pieces[1].launches for pointer in launch.reads} >= {addresses[0][1]}


def test_a_model_with_recurrent_states_is_refused() -> None:
    with pytest.raises(BadArgumentError, match="linear attention, whose states"):
        engine(model("Qwen3NextForCausalLM"))


@pytest.mark.parametrize("tokens", [(0,), (-4,), (2.5,)])
def test_sizes_that_are_none_are_refused(tokens: tuple) -> None:
    with pytest.raises(BadArgumentError, match="piecewise_cuda_graph_tokens"):
        engine(piecewise_cuda_graph_tokens=tokens)


def test_logits_of_a_padded_pass_are_those_of_the_operations() -> None:
    """Not only the tokens: float32 logits, whatever an earlier, longer pass left in the padded rows."""
    made, plain = engine(), Engine(tiny_llama(), max_total_tokens=1024)
    made.generate([[9] * 30], GREEDY)
    seen: list[torch.Tensor] = []
    for one in (made, plain):
        original = one.worker.run_model

        def keeping(batch: object, run: object = original) -> object:
            output = run(batch)  # type: ignore[operator]
            seen.append(output.logits.clone())
            return output

        one.worker.run_model = keeping
        one.generate([[1, 2, 3, 4, 5, 6]], {**GREEDY, "max_new_tokens": 1})
    torch.testing.assert_close(seen[0], seen[1], rtol=1e-5, atol=1e-5)
