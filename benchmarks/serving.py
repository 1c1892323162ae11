"""The engine against transformers in one run: python benchmarks/serving.py [--device cuda] [--shape qwen3-0.6b]

Random weights of a known shape, loaded by both; no end-of-sequence token. Prints output tokens per second of one
request and of many with mixed lengths, and the ratio to peers that run the same requests: transformers (one by one on a
CPU, its continuous batching on a GPU; both greedy) and, with --nano-vllm, nano-vllm (both at temperature 1, for it
refuses greedy sampling). A peer stops after --limit seconds; its rate is then of the tokens so far. Also the host's
cost of a step, on a GPU with graphs, with lists of launches and without, and the share of the memory's bandwidth that a
decode step reaches.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from serving_peers import ContinuousBatching, NanoVllm, OneByOne, Peer, Rate

from sglab.models import CausalLM, from_config, load_model
from sglab.serving import Engine

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "vocab_size": 320,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 32,
    },
    "qwen3-0.6b": {
        "vocab_size": 151_936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "qwen3-8b": {
        "vocab_size": 151_936,
        "hidden_size": 4096,
        "intermediate_size": 12_288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "llama-3.1-8b": {
        "vocab_size": 128_256,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
}
BANDWIDTH = {"H100": 3.35e12, "H200": 4.8e12, "B200": 8.0e12}
"""Bytes per second, published."""
GRAPH_SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448)


def models(shape: str, device: str, dtype: str, folder: Path) -> tuple[CausalLM, Any]:
    """Ours, and transformers' with the same weights or None; their checkpoint is left in `folder`."""
    name = "Qwen3" if shape.startswith("qwen3") else "Llama"
    config = {**SHAPES[shape], "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "rope_theta": 1e6}
    config |= {"eos_token_id": None, "bos_token_id": None, "tie_word_embeddings": False}
    try:
        import transformers
    except ImportError:
        return from_config({**config, "architectures": [f"{name}ForCausalLM"]}, dtype, device), None
    torch.manual_seed(0)
    with torch.device(device):
        configuration = getattr(transformers, f"{name}Config")(**config)
        theirs = getattr(transformers, f"{name}ForCausalLM")(configuration).to(getattr(torch, dtype)).eval()
    theirs.save_pretrained(folder)
    saved = json.loads((folder / "config.json").read_text())
    assert saved["architectures"] == [f"{name}ForCausalLM"]
    return load_model(folder, dtype=dtype, device=device), theirs


def workload(count: int, vocab: int, seed: int = 0) -> tuple[list[list[int]], list[int]]:
    """Prompts of 16 to 512 tokens and output lengths of 16 to 256."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(16, 513, (count,), generator=generator).tolist()
    outputs = torch.randint(16, 257, (count,), generator=generator).tolist()
    return [torch.randint(0, vocab, (n,), generator=generator).tolist() for n in lengths], outputs


def ours_rate(engine: Engine, prompts: list[list[int]], outputs: list[int], temperature: float = 0) -> Rate:
    """All of it, without a limit, from an empty cache."""
    engine.flush_cache()
    sampling = [{"temperature": temperature, "max_new_tokens": count, "ignore_eos": True} for count in outputs]
    begin = time.perf_counter()
    engine.generate(prompts, sampling)
    return Rate(sum(outputs), time.perf_counter() - begin, sum(outputs))


def planning_cost(engine: Engine, requests: int) -> float:
    """Median seconds in which a decode step of this many requests is planned and its result processed."""
    for i in range(requests):
        engine.submit([i % 7 + 1, 2, 3], {"temperature": 0, "max_new_tokens": 60})
    times = []
    while True:
        begin = time.perf_counter()
        scheduled = engine.scheduler.get_next_batch_to_run()
        planned = time.perf_counter() - begin
        if scheduled is None:
            return statistics.median(times)
        result = engine.worker.forward(engine.worker.inputs(scheduled))()
        begin = time.perf_counter()
        engine.scheduler.process_batch_result(scheduled, result)
        if scheduled.record.mode == "DECODE":
            times.append(planned + time.perf_counter() - begin)


def roofline_share(engine: Engine, requests: int) -> float | None:
    """A decode step's bytes (weights and KV) over what the memory could have moved in its time."""
    name = torch.cuda.get_device_name() if engine.device.type == "cuda" else ""
    bandwidth = next((value for key, value in BANDWIDTH.items() if key in name), None)
    if bandwidth is None:
        return None
    prompts, _ = workload(requests, engine.model.config.vocab_size)
    for prompt in prompts:
        engine.submit(prompt, {"temperature": 0, "max_new_tokens": 64})
    while engine.scheduler.waiting_queue:
        engine.step()
    torch.cuda.synchronize()
    begin, first = time.perf_counter(), len(engine.history)
    for _ in range(32):
        engine.step()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begin) / (len(engine.history) - first)
    weights = sum(parameter.nbytes for parameter in engine.model.parameters())
    kv = engine.runner.token_to_kv_pool
    tokens = sum(entry.start for entry in engine.history.steps[-1].batch)
    engine.run()
    return (weights + tokens * kv.get_kv_size_bytes() / kv.size) / seconds / bandwidth


class StepCost(NamedTuple):
    """Median seconds of a decode step on a GPU."""

    host: float
    """What the host takes to plan it, to launch it on an idle device and to process its result."""
    planning: float
    """Of `host`, the scheduler's part: planning and processing."""
    wall: float
    """From one step to the next, one after another, as an engine runs them."""
    waiting: float
    """Of `wall`, that the host waits for the result of the step before."""


def step_cost(engine: Engine, requests: int) -> StepCost:
    """A decode step of so many requests of 16 tokens. No profiler has run in this process: once one has, CUPTI stays
    loaded and every launch takes longer."""
    for i in range(requests):
        engine.submit([i % 7 + 1] + [2] * 15, {"temperature": 0, "max_new_tokens": 200, "ignore_eos": True})
    while engine.scheduler.waiting_queue or engine.history.steps[-1].mode != "DECODE":
        engine.step()
    wall, waits = [], []
    with mock.patch.object(torch.cuda.Event, "synchronize", timing(torch.cuda.Event.synchronize, waits)):
        for _ in range(40):
            begin = time.perf_counter()
            engine.step()
            wall.append(time.perf_counter() - begin)
    while engine._pending:
        engine._process(*engine._pending.pop(0))
    host, planning = [], []
    while (planned := timed(engine.scheduler.get_next_batch_to_run))[0] is not None:
        scheduled, first = planned
        waiting, second = timed(lambda scheduled=scheduled: engine.worker.forward(engine.worker.inputs(scheduled)))
        torch.cuda.synchronize()
        result, third = timed(waiting)
        _, fourth = timed(
            lambda scheduled=scheduled, result=result: engine.scheduler.process_batch_result(scheduled, result)
        )
        host.append(first + second + third + fourth)
        planning.append(first + fourth)
    engine.flush_cache()
    return StepCost(*(statistics.median(times) for times in (host, planning, wall, waits)))


def replay_time(engine: Engine, requests: int) -> float | None:
    """Seconds that one replay after another takes, at lengths of `step_cost`'s: what the device needs, its kernels and
    what lies between them. None: the engine replays nothing."""
    runner = engine.worker.graph_runner
    if runner is None:
        return None
    sampling = {"temperature": 0, "max_new_tokens": 200, "ignore_eos": True}
    rids = [engine.submit([i % 7 + 1] + [2] * 15, sampling).rid for i in range(requests)]
    while engine.scheduler.waiting_queue or engine.history.steps[-1].mode != "DECODE":
        engine.step()
    for _ in range(15):
        engine.step()
    while engine._pending:
        engine._process(*engine._pending.pop(0))
    captured = runner.captured[runner.replays[-1].bs]
    rows = engine.runner.req_to_token_pool.with_dummy
    kept = rows.clone()  # each replay writes its slots into the next column
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(10):
        captured.graph.replay()
        if captured.greedy is not None:
            captured.greedy.graph.replay()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begin) / 10
    rows.copy_(kept)
    for rid in rids:
        engine.abort(rid)
    engine.run()
    engine.flush_cache()
    return seconds


def kernels_of(engine: Engine, requests: int) -> tuple[float, float]:
    """Seconds that a decode step's kernels run, and how many there are."""
    for i in range(requests):
        engine.submit([i % 7 + 1] + [2] * 15, {"temperature": 0, "max_new_tokens": 40, "ignore_eos": True})
    while engine.scheduler.waiting_queue or engine.history.steps[-1].mode != "DECODE":
        engine.step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(8):
            engine.step()
        torch.cuda.synchronize()
    engine.run()
    engine.flush_cache()
    events = [event for event in profile.key_averages() if event.self_device_time_total]
    seconds = sum(event.self_device_time_total for event in events) / 8 * 1e-6
    return seconds, sum(event.count for event in events) / 8


def timing(run: Callable[..., Any], times: list[float]) -> Callable[..., Any]:
    """`run`, whose seconds are noted."""

    def timed_run(*args: Any) -> Any:
        begin = time.perf_counter()
        result = run(*args)
        times.append(time.perf_counter() - begin)
        return result

    return timed_run


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and its seconds."""
    begin = time.perf_counter()
    return run(), time.perf_counter() - begin


def print_step_costs(model: CausalLM, engine: Engine) -> None:
    """With and without graphs, and with lists of launches."""
    plain = Engine(model, cuda_graph=False, max_total_tokens=16_384)
    listed = Engine(model, replay_launches=True, cuda_graph_bs=(1, 32), max_total_tokens=16_384)
    cases = [
        (requests, label, one)
        for requests in (1, 32)
        for label, one in (("with graphs", engine), ("launch list", listed), ("without graphs", plain))
    ]
    costs = [(step_cost(one, requests), replay_time(one, requests)) for requests, _, one in cases]
    for (requests, label, one), (cost, replay) in zip(cases, costs, strict=True):
        kernels, count = kernels_of(one, requests)
        alone = "" if replay is None else f"replays alone {replay * 1e6:.0f} µs, "
        print(
            f"  a decode step of {requests:2} requests {label:14}: host {cost.host * 1e6:5.0f} µs, wall "
            f"{cost.wall * 1e6:5.0f} µs, {alone}kernels {kernels * 1e6:.0f} µs "
            f"({model.config.num_hidden_layers} layers); "
            f"of host {cost.planning * 1e6:.0f} planning, of wall {cost.waiting * 1e6:.0f} waiting for the device; "
            f"{count:.0f} kernels and copies"
        )
    plain.close()
    listed.close()


def peers(
    theirs: Any, on_gpu: bool, tree: Path | None, folder: Path, most_running: int, longest: int
) -> Iterator[Peer]:
    """One after another: each gives its memory back before the next comes."""
    if theirs is not None:
        yield ContinuousBatching(theirs) if on_gpu else OneByOne(theirs)
    if tree is not None:
        yield NanoVllm(tree, folder, most_running, longest)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--requests", type=int, help="default: 64 on a GPU, 16 on a CPU")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that a peer may take for one line")
    parser.add_argument("--skip-transformers", action="store_true")
    parser.add_argument("--nano-vllm", type=Path, help="the folder that holds nanovllm; Qwen3 on a GPU")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    shape = options.shape or ("qwen3-0.6b" if on_gpu else "tiny")
    if options.nano_vllm is not None and not (on_gpu and shape.startswith("qwen3")):
        parser.error("--nano-vllm runs Qwen3 on a GPU: pass --device cuda --shape qwen3-0.6b")
    count = options.requests or (64 if on_gpu else 16)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, theirs = models(shape, options.device, "bfloat16" if on_gpu else "float32", folder)
        prompts, outputs = workload(count, ours.config.vocab_size)
        room = sum(map(len, prompts)) + sum(outputs) + 65_536
        running: dict[str, Any] = {"max_running_requests": max(count, 64), "max_total_tokens": room}
        if on_gpu:
            running["cuda_graph_bs"] = (*(size for size in GRAPH_SIZES if size < count), max(count, 64))
        engine = Engine(ours, **running)
        for temperature in (0, 1):
            ours_rate(engine, prompts[:2], [8, 8], temperature)  # it compiles
        print(f"{shape} on {options.device}, {torch.get_num_threads()} threads; output tokens/s")
        lines = (("one request", prompts[:1], [256]), (f"{count} requests", prompts, outputs))
        mine = {(label, t): ours_rate(engine, *given, t) for label, *given in lines for t in (0, 1)}
        for label, *_ in lines:
            print(f"  {label:14} {mine[label, 0]} greedy, {mine[label, 1]} at temperature 1")
        plans = [(requests, planning_cost(engine, requests)) for requests in (1, 32)]
        share = roofline_share(engine, min(count, 64))
        if on_gpu:  # last of ours, for it runs a profiler
            print_step_costs(ours, engine)
        for requests, seconds in plans:
            print(f"  planning a decode step of {requests:3} requests: {seconds * 1e6:.0f} µs")
        if share is not None:
            print(f"  a decode step reaches {share:.0%} of the memory's published bandwidth")
        theirs = None if options.skip_transformers else theirs
        for peer in peers(theirs, on_gpu, options.nano_vllm, folder, max(count, 64), 1024):
            for warm_up in (prompts[:2], prompts[:1]) if isinstance(peer, NanoVllm) else ():  # it compiles
                peer.measure(warm_up, [8] * len(warm_up), options.limit)
            for label, *given in lines:
                own = mine[label, int(isinstance(peer, NanoVllm))]
                rate = peer.measure(*given, options.limit)
                print(f"  {label:14} {peer.name} {rate}, ours is {own.per_second / rate.per_second:.2f} times that")
            peer.close()
        engine.close()


if __name__ == "__main__":
    main()
