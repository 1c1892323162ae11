"""The engines that `serving.py` measures ours against: the same requests, each with a limit of time.

A peer that reaches the limit has generated part of the tokens; its rate is then of these tokens in that time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import torch

from sglab.kernels import flash_attn


class Rate(NamedTuple):
    """Output tokens of a run, so far or all, and the seconds that they took."""

    tokens: int
    seconds: float
    whole: int
    """Tokens that were asked for."""

    @property
    def per_second(self) -> float:
        return self.tokens / self.seconds

    def __str__(self) -> str:
        if self.tokens == self.whole:
            return f"{self.per_second:.0f}"
        return f"{self.per_second:.0f} (stopped after {self.seconds:.0f} s: {self.tokens:,} of {self.whole:,} tokens)"


class Peer(Protocol):
    """Another engine with the same weights."""

    name: str

    def measure(self, prompts: Sequence[list[int]], outputs: Sequence[int], limit: float) -> Rate:
        """Generate outputs[i] tokens after prompts[i], for at most `limit` seconds."""
        ...

    def close(self) -> None:
        """Give its memory back."""
        ...


class OneByOne:
    """transformers' `generate`, a request at a time; what it offers on a CPU."""

    name = "transformers"

    def __init__(self, model: Any) -> None:
        self.model = model

    def measure(self, prompts: Sequence[list[int]], outputs: Sequence[int], limit: float) -> Rate:
        begin, tokens = time.perf_counter(), 0
        over = [lambda ids, scores: torch.full((len(ids),), time.perf_counter() - begin > limit)]
        for prompt, count in zip(prompts, outputs, strict=True):
            ids = torch.tensor([prompt])
            lengths = {"max_new_tokens": count, "min_new_tokens": count}
            mask = torch.ones_like(ids)
            made = self.model.generate(ids, attention_mask=mask, do_sample=False, stopping_criteria=over, **lengths)
            tokens += made.shape[1] - len(prompt)
            if time.perf_counter() - begin > limit:
                break
        return Rate(tokens, time.perf_counter() - begin, sum(outputs))

    def close(self) -> None:
        del self.model


class ContinuousBatching:
    """transformers' continuous batching on a GPU, each request with a length of its own."""

    name = "transformers"

    def __init__(self, model: Any) -> None:
        self.model = model

    def measure(self, prompts: Sequence[list[int]], outputs: Sequence[int], limit: float) -> Rate:
        from transformers import GenerationConfig

        config = GenerationConfig(max_new_tokens=max(outputs), do_sample=False, eos_token_id=-1, pad_token_id=0)
        manager = self.model.init_continuous_batching(generation_config=config)
        manager.warmup()
        manager.start()
        begin, finished, done = time.perf_counter(), 0, 0
        for prompt, count in zip(prompts, outputs, strict=True):
            manager.add_request(prompt, max_new_tokens=count)
        while done < len(prompts) and time.perf_counter() - begin < limit and manager.is_running():
            result = manager.get_result(timeout=0.05)
            if result is not None and result.is_finished():
                finished, done = finished + len(result.generated_tokens), done + 1
        seconds = time.perf_counter() - begin
        left = list(manager.batch_processor.scheduler.active_requests.values()) if done < len(prompts) else []
        tokens = finished + sum(len(one.generated_tokens) for one in left)
        manager.stop(block=True, timeout=5, hard_stop=True)
        manager.destroy()
        return Rate(tokens, seconds, sum(outputs))

    def close(self) -> None:
        del self.model


class NanoVllm:
    """nano-vllm from its own tree (a folder that holds `nanovllm`); one GPU, Qwen3 only, and no greedy sampling.

    Where flash-attn is missing, its two functions are ours.
    """

    def __init__(self, tree: Path, checkpoint: Path, most_running: int, longest: int) -> None:
        own = find_flash_attn()
        self.name = "nano-vllm" if own else "nano-vllm with our attention"
        sys.path.insert(0, str(tree))
        from nanovllm.config import Config
        from nanovllm.engine.llm_engine import LLMEngine
        from nanovllm.engine.model_runner import ModelRunner
        from nanovllm.engine.scheduler import Scheduler
        from nanovllm.engine.sequence import Sequence as NanoSequence
        from nanovllm.sampling_params import SamplingParams

        self._sampling = SamplingParams
        config = Config(str(checkpoint), max_num_seqs=most_running, max_model_len=longest)
        NanoSequence.block_size = config.kvcache_block_size
        self.engine = object.__new__(LLMEngine)  # without its tokenizer: prompts are token ids
        self.engine.ps = []
        self.engine.model_runner = ModelRunner(config, 0, [])
        self.engine.scheduler = Scheduler(config)

    def measure(self, prompts: Sequence[list[int]], outputs: Sequence[int], limit: float) -> Rate:
        for prompt, count in zip(prompts, outputs, strict=True):
            self.engine.add_request(prompt, self._sampling(temperature=1.0, max_tokens=count, ignore_eos=True))
        sequences = list(self.engine.scheduler.waiting)
        torch.cuda.synchronize()
        begin = time.perf_counter()
        while not self.engine.is_finished() and time.perf_counter() - begin < limit:
            self.engine.step()
        seconds = time.perf_counter() - begin
        scheduler = self.engine.scheduler
        for sequence in (*scheduler.waiting, *scheduler.running):
            scheduler.block_manager.deallocate(sequence)
        scheduler.waiting.clear()
        scheduler.running.clear()
        return Rate(sum(one.num_completion_tokens for one in sequences), seconds, sum(outputs))

    def close(self) -> None:
        self.engine.exit()


def find_flash_attn() -> bool:
    """Whether flash-attn is installed; otherwise its name stands for our functions from here on."""
    try:
        import flash_attn as theirs

        return theirs is not None
    except ImportError:
        module = ModuleType("flash_attn")
        module.flash_attn_varlen_func = varlen  # type: ignore[attr-defined]
        module.flash_attn_with_kvcache = with_kvcache  # type: ignore[attr-defined]
        sys.modules["flash_attn"] = module
        return False


def varlen(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    softmax_scale: float,
    causal: bool,
    block_table: torch.Tensor | None = None,
) -> Any:
    """FlashAttention-2's ragged function, as nano-vllm calls it."""
    lengths = None if block_table is None else cu_seqlens_k.diff().to(torch.int32)
    starts = cu_seqlens_k if block_table is None else None
    return flash_attn.flash_attn_varlen_func(
        q, k, v, cu_seqlens_q, starts, max_seqlen_q, max_seqlen_k,
        seqused_k=lengths, page_table=block_table, softmax_scale=softmax_scale, causal=causal,
    )  # fmt: skip


def with_kvcache(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    *,
    cache_seqlens: torch.Tensor,
    block_table: torch.Tensor,
    softmax_scale: float,
    causal: bool,
) -> Any:
    """FlashAttention-2's function for decoding, as nano-vllm calls it."""
    return flash_attn.flash_attn_with_kvcache(
        q, k_cache, v_cache, cache_seqlens=cache_seqlens, page_table=block_table, softmax_scale=softmax_scale,
        causal=causal,
    )  # fmt: skip
