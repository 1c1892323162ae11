"""Decode passes as lists of launches: the same tokens as without, and a list that leaves something out is refused."""

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sglab.engine import BadArgumentError
from sglab.engine.graphs import GraphCaptureError, LaunchList, Rooms
from sglab.serving import Engine
from tests.support.serving import families
from tests.support.serving.tiny import prompts, tiny_llama

GREEDY = {"temperature": 0, "max_new_tokens": 12, "ignore_eos": True}
DRAWN = {"temperature": 1.0, "sampling_seed": 3, "max_new_tokens": 9, "repetition_penalty": 1.2}
LISTED: dict[str, Any] = {"replay_launches": True, "cuda_graph_bs": (1, 4)}
ROOM: dict[str, Any] = {"max_total_tokens": 1024, "check_invariants": True}


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen3ForCausalLM", "DeepseekV2ForCausalLM", "GptOssForCausalLM"])
def test_tokens_are_those_of_passes_run_as_they_are(name: str, overlap: bool) -> None:
    made = tiny_llama() if name == "LlamaForCausalLM" else families.model(name)
    sampling = [GREEDY, DRAWN, {**GREEDY, "max_new_tokens": 4}]
    plain = Engine(made, **ROOM).generate(prompts(3), sampling)
    with Engine(made, disable_overlap_schedule=not overlap, **LISTED, **ROOM) as engine:
        again = engine.generate(prompts(3), sampling)
        assert [one.token_ids for one in again] == [one.token_ids for one in plain]
        runner = engine.worker.graph_runner
        assert {(each.raw_bs, each.bs) for each in runner.replays} >= {(3, 4), (1, 1)}
        assert all(isinstance(each.graph, LaunchList) for each in runner.captured.values())
        for buffer in engine.runner.token_to_kv_pool.named_buffers(0).values():
            assert buffer.isfinite().all()


def test_a_replay_makes_no_tensor_where_the_operation_can_write_into_one() -> None:
    x, weight, made = torch.randn(3, 8), torch.randn(8, 8), LaunchList(Rooms())
    with torch.inference_mode(), made.capture():
        y = torch.relu(torch.nn.functional.linear(x, weight)) + 1
        half = y.to(torch.float16)
        last = half.view(2, 12)[:, 1:]

    class Made(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    x.copy_(torch.randn(3, 8))
    with Made() as seen:
        made.replay()
    assert seen.names == ["aten.linear.out", "aten.relu.out", "aten.add.out", "aten.copy_.default"]
    wanted = (torch.relu(x @ weight.T) + 1).half()
    assert torch.equal(half, wanted) and torch.equal(last, wanted.view(2, 12)[:, 1:])


def test_lists_share_rooms_the_largest_first() -> None:
    rooms, made = Rooms(), []
    for size in (8, 2):
        with LaunchList(rooms).capture():
            made.append(torch.ones(size, 4) * 2)
    large, small = made
    assert large.data_ptr() == small.data_ptr() and small.shape == (2, 4)
    larger = rooms.place(0, torch.empty(100))
    assert larger.numel() == 100 and larger.data_ptr() != large.data_ptr()


def test_what_the_host_reads_and_launches_of_unknown_kind_are_refused() -> None:
    made = LaunchList(Rooms())
    with pytest.raises(GraphCaptureError, match="_local_scalar_dense: the host reads a value"), made.capture():
        torch.ones(3).sum().item()
    with pytest.raises(GraphCaptureError, match="some_kernel: its launch depends on more than its arguments"):
        made.passed_over("some_kernel")


def test_a_list_that_leaves_a_launch_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a backend with kernels that are neither PyTorch's nor Triton's."""

    def unheard(self: LaunchList, name: str, run: Any, reads: Any) -> torch.Tensor:
        self._paused = True
        try:
            return self._result(run())
        finally:
            self._paused = False

    monkeypatch.setattr(LaunchList, "launch", unheard)
    with pytest.raises(BadArgumentError, match="replay_launches: expected a decode pass made of PyTorch's operations"):
        Engine(tiny_llama(), **LISTED, **ROOM)


def test_what_lists_do_not_serve_is_refused_by_name() -> None:
    with pytest.raises(BadArgumentError, match="cuda_graph: expected its default with replay_launches, got True"):
        Engine(tiny_llama(), cuda_graph=True, **LISTED, **ROOM)
    with pytest.raises(BadArgumentError, match="tp_size: expected its default with replay_launches, got 2"):
        Engine("tiny", tp_size=2, **LISTED, **ROOM)
    with pytest.raises(BadArgumentError, match="replay_launches: expected False for a model with recurrent states"):
        Engine(families.model("Qwen3NextForCausalLM"), **LISTED, **ROOM)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("name", ["LlamaForCausalLM", "Qwen3ForCausalLM", "DeepseekV2ForCausalLM"])
def test_on_a_gpu(name: str) -> None:
    made = (tiny_llama() if name == "LlamaForCausalLM" else families.model(name)).cuda()
    plain = Engine(made, cuda_graph=False, **ROOM).generate(prompts(3), [GREEDY, DRAWN, GREEDY])
    engine = Engine(made, **LISTED, **ROOM)
    again = engine.generate(prompts(3), [GREEDY, DRAWN, GREEDY])
    assert [one.token_ids for one in again] == [one.token_ids for one in plain]
    assert engine.worker.graph_runner is not None and engine.worker.graph_runner.replays
