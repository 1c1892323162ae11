"""The engine on a GPU: the tokens of plain decoding, whatever is switched on."""

from unittest import mock

import pytest
import torch

from sglab.engine.graphs import GraphInputBuffers
from sglab.models import CausalLM, from_config
from sglab.serving import Engine
from tests.support.serving.tiny import CONFIG, prompts

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
GREEDY = {"temperature": 0, "max_new_tokens": 24}


def model() -> CausalLM:
    made = from_config({**CONFIG, "hidden_size": 256, "head_dim": 64}, "float32", "cuda", 0)
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if "norm" not in name:
                parameter *= 8
    return made


OPTIONS = [
    {},
    {"disable_overlap_schedule": True},
    {"page_size": 16, "chunked_prefill_size": 32, "enable_mixed_chunk": True},
    {"max_total_tokens": 256, "schedule_conservativeness": 0.05},
    {"max_total_tokens": 256, "enable_hierarchical_cache": True, "hicache_write_policy": "write_back"},
    {"cuda_graph": False},
    {"enable_piecewise_cuda_graph": True, "piecewise_cuda_graph_tokens": (16, 64, 256)},
    {"speculative_algorithm": "NGRAM"},
    {"attention_backend": "torch_native", "cuda_graph": False},
]


@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("overlap", [False, True])
def test_a_steady_step_leaves_lengths_and_rows_to_the_graph(overlap: bool, lists: bool) -> None:
    made, given = model(), prompts(9, 60)
    sampling = [
        GREEDY,
        {**GREEDY, "max_new_tokens": 9},
        {"temperature": 1.0, "sampling_seed": 5, "max_new_tokens": 17},
    ] * 3
    plain = Engine(made, cuda_graph=False, max_total_tokens=4096)
    options = {"replay_launches": True} if lists else {}
    with Engine(
        made, max_total_tokens=4096, check_invariants=True, disable_overlap_schedule=not overlap, **options
    ) as engine:
        runner = engine.worker.graph_runner
        assert runner is not None and runner.advances(9)
        for _ in range(2):
            assert [each.token_ids for each in engine.generate(given, sampling)] == [
                each.token_ids for each in plain.generate(given, sampling)
            ]
        begin, begun = GraphInputBuffers.begin, []
        with mock.patch.object(GraphInputBuffers, "begin", lambda *given: (begun.append(given), begin(*given))):
            engine.generate(given, GREEDY)
        assert len(begun) <= 2  # 23 decode steps of nine requests that begin and end together
        engine.flush_cache()
        assert engine.scheduler.allocator.available_size() == engine.scheduler.allocator.size


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_tokens_do_not_depend_on_scheduling(options: dict) -> None:
    made, given = model(), prompts(9, 60)
    plain = {"cuda_graph": False, "disable_overlap_schedule": True, "max_total_tokens": 4096}
    alone = [Engine(made, **plain).generate(prompt, GREEDY).token_ids for prompt in given]
    with Engine(made, **{"max_total_tokens": 4096, "check_invariants": True, **options}) as engine:
        for _ in range(2):
            assert [output.token_ids for output in engine.generate(given, GREEDY)] == alone
        if options.get("cuda_graph", True) and "speculative_algorithm" not in options:
            assert engine.worker.graph_runner.replays
