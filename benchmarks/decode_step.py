"""What a decode step costs on the host besides its kernels, on any machine: python benchmarks/decode_step.py

An engine of 28 tiny layers, its parts timed and PyTorch's operations in them counted. With graphs the replays are left
out, and graphs find their inputs as on a GPU: what remains is what the host does around them. Without graphs the
operations themselves are run, so that there the counts say more than the times. Views are not counted: on a GPU each
operation that is counted is at least one launch, of some µs. What a GPU adds is measured by serving.py --device cuda.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from sglab.models import CausalLM, from_config
from sglab.serving import Engine
from sglab.serving.graph_runner import CudaGraphRunner

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 28,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "eos_token_id": None,
    "bos_token_id": None,
    "tie_word_embeddings": False,
}
STEPS = 200


class Operations(TorchDispatchMode):
    """Counts what is run, by name; not views, and not what only allocates."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aliases = [each.alias_info for each in func._schema.returns]
        is_view = any(alias is not None and not alias.is_write for alias in aliases)
        name = func._schema.name.removeprefix("aten::")
        if not is_view and not name.startswith(("empty", "resolve_", "new_empty", "detach")):
            self.counted[name] += 1
        return func(*args, **(kwargs or {}))


class NoReplay:
    """In a graph's place."""

    def replay(self) -> None:
        pass


def without_replays(engine: Engine) -> Engine:
    """The engine with graphs as on a GPU that run nothing; its tokens mean nothing."""
    worker = engine.worker
    assert worker.graph_runner is not None
    sizes = worker.graph_runner.capture_bs
    runner = CudaGraphRunner(worker.model, worker.runner, worker.backend, sizes, worker.output_tokens)
    for size, captured in runner.captured.items():
        assert captured.greedy is not None
        greedy = replace(captured.greedy, graph=NoReplay())
        runner.captured[size] = replace(captured, graph=NoReplay(), fills_metadata=True, advances=True, greedy=greedy)
    worker.graph_runner, worker.runner.check_metadata = runner, False
    runner._with_metadata = runner._advancing = True
    engine.scheduler.advances = runner.advances
    return engine


def in_decode(engine: Engine, requests: int, temperature: float) -> None:
    """Have so many requests decode, and nothing on its way."""
    sampling = {"temperature": temperature, "max_new_tokens": 2 * STEPS + 100, "ignore_eos": True}
    for i in range(requests):
        engine.submit([i % 7 + 1] + [2] * 15, sampling)
    while engine.scheduler.waiting_queue or engine.history.steps[-1].mode != "DECODE":
        engine.step()
    while engine._pending:
        engine._process(*engine._pending.pop(0))


def step(engine: Engine, part: Callable[[str, Callable[[], Any]], Any]) -> None:
    """One step; each of its parts is run through `part`."""
    scheduler, worker = engine.scheduler, engine.worker
    scheduled = part("plan", scheduler.get_next_batch_to_run)
    inputs = part("inputs", lambda: worker.inputs(scheduled))
    waiting = part("forward", lambda: worker.forward(inputs))
    result = part("result", waiting)
    part("process", lambda: scheduler.process_batch_result(scheduled, result))


def measure(engine: Engine, requests: int, temperature: float, steps: int, listed: bool) -> None:
    in_decode(engine, requests, temperature)
    counts: dict[str, Counter[str]] = {}
    with Operations() as operations:

        def counted(name: str, run: Callable[[], Any]) -> Any:
            operations.counted = counts[name] = Counter()
            return run()

        step(engine, counted)
    times: dict[str, list[float]] = defaultdict(list)

    def timed(name: str, run: Callable[[], Any]) -> Any:
        begin = time.thread_time()
        result = run()
        times[name].append(time.thread_time() - begin)
        return result

    for _ in range(steps):
        step(engine, timed)
    medians = {name: statistics.median(each) * 1e6 for name, each in times.items()}
    parts = ", ".join(f"{name} {medians[name]:.0f} µs and {counts[name].total()} operations" for name in counts)
    total = sum(each.total() for each in counts.values())
    print(f"  {requests:2} requests at temperature {temperature}: {sum(medians.values()):.0f} µs, {total} operations")
    print(f"    {parts}")
    if listed:
        for name, each in counts.items():
            print(f"    {name}: {dict(each.most_common())}")


def model() -> CausalLM:
    torch.manual_seed(0)
    return from_config(CONFIG, "float32", "cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="which operations")
    parser.add_argument("--page-size", type=int, default=1)
    parser.add_argument("--only", choices=("with", "lists", "without"), help="of the parts; default: all")
    options = parser.parse_args()
    torch.set_num_threads(1)
    made = model()
    room: dict[str, Any] = {
        "max_total_tokens": 32_768,
        "max_running_requests": 32,
        "page_size": options.page_size,
        "disable_overlap_schedule": True,
    }
    if options.only in (None, "with"):
        print("with graphs, replays left out")
        for requests in (1, 32):
            for temperature in (0, 1):  # graphs that are not replayed leave a cache of no use
                with without_replays(Engine(made, cuda_graph=True, cuda_graph_bs=(1, 32), **room)) as engine:
                    measure(engine, requests, temperature, STEPS, options.list)
    for part, name, how in (
        ("lists", "lists of launches", {"replay_launches": True, "cuda_graph_bs": (1, 32)}),
        ("without", "without graphs", {"cuda_graph": False}),
    ):
        if options.only in (None, part):
            print(name)
            for requests in (1, 32):
                with Engine(made, **room, **how) as engine:
                    measure(engine, requests, 0, 10, options.list)


if __name__ == "__main__":
    main()
