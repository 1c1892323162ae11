"""The engine against transformers in one run: python benchmarks/serving.py [--device cuda] [--shape qwen3-0.6b]

Random weights of a known shape, loaded by both; greedy, no end-of-sequence token. Prints output tokens per second of
one request and of many with mixed lengths, the ratio to transformers (which runs the same prompts: one by one on a CPU,
with its continuous batching on a GPU), the host's cost of planning a step, and on a GPU the share of the memory's
bandwidth that a decode step reaches. Without transformers only our own figures are printed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

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


def models(shape: str, device: str, dtype: str) -> tuple[CausalLM, Any]:
    """Ours, and transformers' with the same weights or None."""
    config = {**SHAPES[shape], "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "rope_theta": 1e6}
    config |= {"eos_token_id": None, "bos_token_id": None, "tie_word_embeddings": False}
    try:
        import transformers
    except ImportError:
        return from_config({**config, "architectures": ["LlamaForCausalLM"]}, dtype, device), None
    theirs = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).to(getattr(torch, dtype)).eval()
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        saved = json.loads((Path(folder) / "config.json").read_text())
        assert saved["architectures"] == ["LlamaForCausalLM"]
        ours = load_model(folder, dtype=dtype, device=device)
    return ours, theirs.to(device)


def workload(count: int, vocab: int, seed: int = 0) -> tuple[list[list[int]], list[int]]:
    """Prompts of 16 to 512 tokens and output lengths of 16 to 256."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(16, 513, (count,), generator=generator).tolist()
    outputs = torch.randint(16, 257, (count,), generator=generator).tolist()
    return [torch.randint(0, vocab, (n,), generator=generator).tolist() for n in lengths], outputs


def ours_rate(engine: Engine, prompts: list[list[int]], outputs: list[int]) -> float:
    """Output tokens per second."""
    sampling = [{"temperature": 0, "max_new_tokens": count} for count in outputs]
    begin = time.perf_counter()
    engine.generate(prompts, sampling)
    return sum(outputs) / (time.perf_counter() - begin)


def theirs_rate(model: Any, prompts: list[list[int]], outputs: list[int]) -> float:
    """Output tokens per second: continuous batching on a GPU, one by one on a CPU."""
    begin = time.perf_counter()
    if model.device.type == "cuda":
        from transformers import GenerationConfig

        config = GenerationConfig(max_new_tokens=max(outputs), do_sample=False, eos_token_id=-1, pad_token_id=0)
        model.generate_batch(inputs=prompts, generation_config=config)
        return max(outputs) * len(outputs) / (time.perf_counter() - begin)
    for prompt, count in zip(prompts, outputs, strict=True):
        ids = torch.tensor([prompt])
        model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count, do_sample=False
        )
    return sum(outputs) / (time.perf_counter() - begin)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--shape", choices=SHAPES)
    parser.add_argument("--requests", type=int)
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    shape = options.shape or ("qwen3-0.6b" if on_gpu else "tiny")
    count = options.requests or (256 if on_gpu else 16)
    ours, theirs = models(shape, options.device, "bfloat16" if on_gpu else "float32")
    engine = Engine(ours, max_running_requests=256)
    prompts, outputs = workload(count, ours.config.vocab_size)
    ours_rate(engine, prompts[:2], [8, 8])
    engine.flush_cache()
    print(f"{shape} on {options.device}, {torch.get_num_threads()} threads; output tokens/s")
    for label, given in (("one request", (prompts[:1], [256])), (f"{count} requests", (prompts, outputs))):
        mine = ours_rate(engine, *given)
        engine.flush_cache()
        peer = theirs_rate(theirs, *given) if theirs is not None else None
        ratio = "transformers is not installed" if peer is None else f"transformers {peer:.0f}, ratio {mine / peer:.2f}"
        print(f"  {label:14} {mine:8.0f}   {ratio}")
    for requests in (1, 32):
        print(f"  planning a decode step of {requests:3} requests: {planning_cost(engine, requests) * 1e6:.0f} µs")
    share = roofline_share(engine, min(count, 64))
    if share is not None:
        print(f"  a decode step reaches {share:.0%} of the memory's published bandwidth")


if __name__ == "__main__":
    main()
