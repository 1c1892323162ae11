"""Decode passes whose captured launches are made one by one: the same tokens as without."""

import ctypes
from typing import Any

import pytest
import torch

from sglab import _core
from sglab.engine import BadArgumentError
from sglab.engine.graphs import GraphCaptureError, LaunchList
from sglab.serving import Engine
from tests.support.serving import families
from tests.support.serving.tiny import prompts, tiny_llama

GREEDY = {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True}
DRAWN = {"temperature": 1.0, "sampling_seed": 3, "max_new_tokens": 9, "repetition_penalty": 1.2}
LISTED: dict[str, Any] = {"replay_launches": True, "cuda_graph_bs": (1, 4)}
ROOM: dict[str, Any] = {"max_total_tokens": 1024, "check_invariants": True}
on_a_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]


class Driver:
    """In cuLaunchKernelEx's place: keeps what it is given."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.made: list[tuple[tuple[int, ...], int, int, int, int]] = []

        def launch(config: int, function: int, parameters: int, extra: int) -> int:
            if len(self.made) == fails_at:
                return 700
            sizes = tuple((ctypes.c_uint * 7).from_address(config))
            stream = ctypes.c_uint64.from_address(config + 32).value
            self.made.append((sizes, stream, function or 0, parameters or 0, extra or 0))
            return 0

        self._launch = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(launch)
        self.address = ctypes.cast(self._launch, ctypes.c_void_p).value or 0


def configured(launches: Any, number: int) -> list[Any]:
    """Adds launches of different sizes; what holds them."""
    kept = [(ctypes.c_uint * 14)(i + 1, 2, 3, 32, 1, 1, 1024 * i) for i in range(number)]
    for i, config in enumerate(kept):
        launches.add(ctypes.addressof(config), 100 + i, 200 + i, 0)
    return kept


def test_launches_are_made_in_order_on_the_stream_of_each_run() -> None:
    driver = Driver()
    launches = _core.Launches(driver.address)
    kept = configured(launches, 3)
    assert len(launches) == len(kept) == 3
    for stream in (5, 2**40):
        assert launches.run(stream) == (0, 3)
    wanted = [((i + 1, 2, 3, 32, 1, 1, 1024 * i), 100 + i, 200 + i) for i in range(3)]
    assert [(sizes, function, given) for sizes, _, function, given, _ in driver.made] == 2 * wanted
    assert [stream for _, stream, *_ in driver.made] == 3 * [5] + 3 * [2**40]


def test_a_run_ends_at_the_first_launch_that_fails() -> None:
    driver = Driver(fails_at=2)
    launches = _core.Launches(driver.address)
    kept = configured(launches, 4)
    assert launches.run(0) == (700, 2) and len(driver.made) == 2 and len(kept) == 4


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "DeepseekV2ForCausalLM", "Qwen3NextForCausalLM"])
def test_on_a_cpu_they_are_recorded_operations(name: str, overlap: bool) -> None:
    made = tiny_llama() if name == "LlamaForCausalLM" else families.model(name)
    sampling = [GREEDY, DRAWN, {**GREEDY, "max_new_tokens": 4}]
    plain = Engine(made, **ROOM).generate(prompts(3), sampling)
    with Engine(made, disable_overlap_schedule=not overlap, **LISTED, **ROOM) as engine:
        again = engine.generate(prompts(3), sampling)
        assert [one.token_ids for one in again] == [one.token_ids for one in plain]
        runner = engine.worker.graph_runner
        assert {(each.raw_bs, each.bs) for each in runner.replays} >= {(3, 4), (1, 1)}


def test_what_goes_with_lists_is_refused_by_name() -> None:
    with pytest.raises(BadArgumentError, match="cuda_graph: expected its default with replay_launches, got True"):
        Engine(tiny_llama(), cuda_graph=True, **LISTED, **ROOM)
    with pytest.raises(BadArgumentError, match="tp_size: expected its default with replay_launches, got 2"):
        Engine("tiny", tp_size=2, **LISTED, **ROOM)


class TestOnAGpu:
    pytestmark = on_a_gpu

    @pytest.mark.parametrize(
        "name",
        ["LlamaForCausalLM", "Qwen3ForCausalLM", "DeepseekV2ForCausalLM", "GptOssForCausalLM", "Qwen3NextForCausalLM"],
    )
    def test_tokens_are_those_of_passes_run_as_they_are(self, name: str) -> None:
        made = (tiny_llama() if name == "LlamaForCausalLM" else families.model(name)).cuda()
        sampling = [GREEDY, DRAWN, {**GREEDY, "max_new_tokens": 4}]  # 3 requests, then 2, then 1: both lists
        plain = Engine(made, cuda_graph=False, **ROOM).generate(prompts(3), sampling)
        engine = Engine(made, **LISTED, **ROOM)
        again = engine.generate(prompts(3), sampling)
        assert [one.token_ids for one in again] == [one.token_ids for one in plain]
        runner = engine.worker.graph_runner
        assert runner is not None and runner.replays
        lists = [each.graph for each in runner.captured.values()]
        assert all(isinstance(each, LaunchList) and each.replays for each in lists)
        assert all(row["launches"] for row in runner.describe()["captured"])

    def test_kernels_copies_and_fills_of_one_capture(self) -> None:
        x, y = torch.randn(4, 1000, device="cuda"), torch.empty(1000, 4, device="cuda")
        counts, graph = torch.empty(100, dtype=torch.int32, device="cuda"), torch.cuda.CUDAGraph(keep_graph=True)
        weight = torch.randn(1000, 512, device="cuda", dtype=torch.bfloat16)

        def work() -> torch.Tensor:
            y.copy_(x.T)
            counts.zero_()
            product = x.bfloat16() @ weight
            return torch.cat((product.float().flatten(), y.sort(0).values.flatten(), counts.float()))

        work()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            out = work()
        listed = LaunchList(graph)
        for _ in range(3):
            x.normal_()
            counts.fill_(7)
            listed.replay()
            assert torch.equal(out, work())
        assert listed.replays == 3 and len(listed.names) >= 6
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            x.normal_()
            listed.replay()
            assert torch.equal(out, work())

    def test_other_nodes_are_refused(self) -> None:
        x, graph, event = (
            torch.ones(4, device="cuda"),
            torch.cuda.CUDAGraph(keep_graph=True),
            torch.cuda.Event(external=True),
        )
        with torch.cuda.graph(graph):
            x += 1
            event.record()
        with pytest.raises(GraphCaptureError, match="a node of type EVENT_RECORD"):
            LaunchList(graph)
