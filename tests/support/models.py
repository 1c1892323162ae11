"""Running a model by hand, pass after pass, over real pools and backends; and transformers as its oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from sglab.attention import create_attention_backend
from sglab.engine import (
    ForwardBatch,
    ForwardMode,
    LinearStatePool,
    MHATokenToKVPool,
    MLATokenToKVPool,
    ModelRunner,
    NSATokenToKVPool,
    PagedTokenToKVPoolAllocator,
    RadixCache,
    Req,
    ReqToTokenPool,
    ScheduleBatch,
    TokenToKVPoolAllocator,
)
from sglab.layers import LogitsProcessor
from sglab.models import CausalLM, load_model


class Driver:
    """One batch of requests through a model: `prefill` in chunks of any size, then `decode` token by token."""

    def __init__(
        self,
        model: CausalLM,
        page_size: int = 4,
        backend: str = "torch_native",
        tokens: int = 1024,
        implementation: str = "auto",
    ) -> None:
        config, device = model.attention_config(), model.device
        pool: Any
        if config.kind == "mla":
            rank, rope = config.kv_lora_rank, config.qk_rope_head_dim
            layers, dim = config.num_hidden_layers, config.index_head_dim
            if dim:
                pool = NSATokenToKVPool(tokens, page_size, model.dtype, rank, rope, layers, dim, device)
            else:
                pool = MLATokenToKVPool(tokens, page_size, model.dtype, rank, rope, layers, device)
        else:
            heads = config.get_num_kv_heads(model.tp.size)
            pool = MHATokenToKVPool(
                tokens,
                page_size,
                model.dtype,
                heads,
                config.head_dim,
                config.num_hidden_layers,
                device,
                config.v_head_dim,
            )
        rows = ReqToTokenPool(8, min(config.context_len, tokens), device)
        allocator: Any
        if page_size == 1:
            allocator = TokenToKVPoolAllocator(tokens, device, pool)
        else:
            allocator = PagedTokenToKVPoolAllocator(tokens, page_size, device, pool)
        self.model = model
        self.runner = ModelRunner(
            config, rows, pool, allocator, model.dtype, device, page_size, tp_size=model.tp.size,
            kernel_implementation=implementation,
        )  # fmt: skip
        state = model.state_config()
        if state is not None:
            self.runner.state_pool = LinearStatePool(state, rows.size, model.dtype, device)
            self.runner.state_pool.conv.fill_(7.0)  # a former owner's
            self.runner.state_pool.temporal.fill_(-7.0)
        self.tree = RadixCache(rows, allocator, page_size, disable=state is not None)
        self.backend = create_attention_backend(backend, self.runner)

    def run(self, batch: ScheduleBatch) -> torch.Tensor:
        """One pass: hidden states [tokens, hidden]."""
        forward_batch = ForwardBatch.init_new(batch.get_model_worker_batch(), self.runner)
        forward_batch.attn_backend = self.backend
        self.backend.prepare(forward_batch)
        assert forward_batch.positions is not None
        self.last = forward_batch
        with torch.inference_mode():
            return self.model(forward_batch.input_ids, forward_batch.positions, forward_batch)

    def prefill(self, prompts: list[list[int]], chunk: int | None = None) -> tuple[torch.Tensor, ScheduleBatch]:
        """Logits of every prompt token, prompt after prompt, and the batch that ran last."""
        reqs = [Req(f"r{i}", list(prompt)) for i, prompt in enumerate(prompts)]
        logits: list[list[torch.Tensor]] = [[] for _ in reqs]
        done = 0
        while True:
            for req in reqs:
                req.init_next_round_input(self.tree if done == 0 else None)
                if chunk is not None:
                    req.fill_ids = req.fill_ids[: done + chunk]
                if done:
                    req.prefix_indices = self.runner.req_to_token_pool.req_to_token[
                        req.req_pool_idx, : req.kv_committed_len
                    ].to(torch.int64)
                req.extend_input_len = len(req.fill_ids) - len(req.prefix_indices)
            active = [req for req in reqs if req.extend_input_len]
            if not active:
                break
            batch = ScheduleBatch.init_new(active, self.tree)
            batch.prepare_for_extend()
            rows = self.model.compute_logits(self.run(batch)).split(batch.extend_lens)
            for req, part in zip(active, rows, strict=True):
                logits[reqs.index(req)].append(part)
            done += chunk or max(map(len, prompts))
        batch = ScheduleBatch.init_new(reqs, self.tree)
        batch.forward_mode = ForwardMode.DECODE
        batch.req_pool_indices = torch.tensor([req.req_pool_idx for req in reqs], device=self.model.device)
        batch.seq_lens_cpu = torch.tensor([req.kv_committed_len for req in reqs])
        batch.seq_lens = batch.seq_lens_cpu.to(self.model.device)
        return torch.cat([row for one in logits for row in one]), batch

    def decode(self, batch: ScheduleBatch, token_ids: list[int]) -> torch.Tensor:
        """Logits [B, vocab] after one more token per request."""
        batch.output_ids = torch.tensor(token_ids, device=self.model.device)
        batch.prepare_for_decode()
        for req, token in zip(batch.reqs, token_ids, strict=True):
            req.output_ids.append(token)
        hidden = LogitsProcessor.sampled_rows(self.run(batch), self.last)
        return self.model.compute_logits(hidden)

    def generate(self, prompts: list[list[int]], count: int, chunk: int | None = None) -> list[list[int]]:
        """Greedy tokens of each prompt."""
        logits, batch = self.prefill(prompts, chunk)
        ends = torch.tensor([len(prompt) for prompt in prompts]).cumsum(0) - 1
        tokens = logits[ends].argmax(-1).tolist()
        outputs = [[token] for token in tokens]
        for _ in range(count - 1):
            tokens = self.decode(batch, tokens).argmax(-1).tolist()
            for output, token in zip(outputs, tokens, strict=True):
                output.append(token)
        return outputs


def relative_error(logits: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference over the largest expected magnitude; NaN where either is."""
    return float((logits.double() - expected.double()).abs().max() / expected.double().abs().max())


def oracle(name: str, folder: Path, config: dict[str, Any], seed: int = 0) -> tuple[Any, CausalLM]:
    """A transformers model with random weights, its checkpoint in `folder`, and ours read from there; float32.

    Skips the test where transformers is missing.
    """
    transformers = pytest.importorskip("transformers", reason="transformers is the oracle: pip install 'sglab[test]'")
    torch.manual_seed(seed)
    configuration = getattr(transformers, name.removesuffix("ForCausalLM") + "Config")(**config)
    theirs = getattr(transformers, name)(configuration).float().eval()
    with torch.no_grad():
        biases = [(name, one) for name, one in theirs.named_buffers() if name.endswith("correction_bias")]
        for parameter_name, parameter in [*theirs.named_parameters(), *biases]:
            spread = 0.3 if "norm" in parameter_name or "bias" in parameter_name or "sink" in parameter_name else 0.08
            parameter += spread * torch.randn(parameter.shape)
    theirs.save_pretrained(folder)
    saved = json.loads((folder / "config.json").read_text())
    assert saved["architectures"] == [name]
    return theirs, load_model(folder, dtype="float32")


def prompts(lengths: list[int], vocab: int, seed: int = 0) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, vocab, (length,), generator=generator).tolist() for length in lengths]


def check_against(theirs: Any, ours: CausalLM, lengths: list[int], chunk: int, tolerance: float = 1e-4, count: int = 64,
                  **options: Any) -> float:  # fmt: skip
    """Prefill, chunked prefill and decode agree in logits, and the greedy tokens are equal. Returns the largest error.

    One pass of the oracle over prompt and output is what decoding token by token must give: each of its rows is a
    full recomputation, and its argmax after every token being the next makes the output its greedy one.
    """
    given = prompts(lengths, ours.config.vocab_size)
    outputs = Driver(ours, **options).generate(given, count, chunk)
    with torch.inference_mode():
        whole = [theirs(torch.tensor([p + o[:-1]])).logits[0] for p, o in zip(given, outputs, strict=True)]
    for prompt, output, logits in zip(given, outputs, whole, strict=True):
        assert logits[len(prompt) - 1 :].argmax(-1).tolist() == output
    expected = torch.cat([logits[: len(prompt)] for logits, prompt in zip(whole, given, strict=True)])
    errors = [relative_error(Driver(ours, **options).prefill(given, size)[0], expected) for size in (None, chunk)]
    driver = Driver(ours, **options)
    _, batch = driver.prefill(given)
    for step in range(min(8, count - 1)):
        logits = driver.decode(batch, [output[step] for output in outputs])
        wanted = [rows[len(prompt) + step] for rows, prompt in zip(whole, given, strict=True)]
        errors.append(relative_error(logits, torch.stack(wanted)))
    worst = max(errors)
    assert worst <= tolerance, errors
    return worst
