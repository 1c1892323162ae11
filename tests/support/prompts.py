"""A prompt of one process as the ranks have it that its new tokens are spread over (`attn_cp_size`)."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import torch

import sglab
from sglab.attention import create_attention_backend
from sglab.attention.cp.backend import PromptParallelBackend
from sglab.attention.cp.layout import PromptShares
from sglab.engine import ForwardBatch, ModelRunner
from sglab.engine.rank_group import RankGroup
from sglab.layers import TensorParallel
from sglab.workbench import Batch
from tests.support.attention import quantize_pool


@dataclass(frozen=True)
class Prompt:
    """A batch that every rank builds anew, from the same seed.

    Attributes:
        decodes: lengths of requests that decode in the same pass.
        fp8: the pool is of e4m3, with these scales; MLA's has none.
        layer: options of the layer.
        arguments: of `forward`, but `topk_indices`, which is cut to a rank's rows.
        parts: MLA's keys and queries come in latent and rotary parts.
    """

    backend: str
    lens: list[int]
    prefixes: list[int]
    decodes: list[int] = field(default_factory=list)
    implementation: str = "auto"
    fp8: tuple[float, float] | None = None
    parts: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    layer: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, torch.Tensor] = field(default_factory=dict)

    def batch(self) -> Batch:
        batch = sglab.extend_batch(self.lens, self.prefixes, decode_seq_lens=self.decodes, **self.options)
        batch.layer = replace(batch.layer, **self.layer)
        if self.fp8 is not None:
            scales = (None, None) if batch.layer.v_head_dim != batch.layer.head_dim else self.fp8
            quantize_pool(batch, torch.float8_e4m3fn, *scales)
        return batch


def rank_runner(batch: Batch, group: RankGroup, implementation: str = "auto") -> ModelRunner:
    """A batch's runner as one rank has it: with a pool of its own, but for the rows that the pass is to store."""
    pool = copy.deepcopy(batch.runner.token_to_kv_pool)
    for buffer in pool.named_buffers(batch.layer.layer_id).values():
        buffer[batch.forward_batch.out_cache_loc] = 7.0
    return replace(batch.runner, token_to_kv_pool=pool, attn_cp=group, kernel_implementation=implementation)


def made(name: str, batch: Batch, runner: ModelRunner) -> tuple[PromptParallelBackend, ForwardBatch]:
    """A backend, and the batch with this rank's pool."""
    backend = create_attention_backend(name, runner)
    assert isinstance(backend, PromptParallelBackend)
    return backend, replace(batch.forward_batch, token_to_kv_pool=runner.token_to_kv_pool)


def attend_prompt(group: RankGroup, prompt: Prompt) -> torch.Tensor:
    batch = prompt.batch()
    given = {name: each.to(batch.q.device) for name, each in prompt.arguments.items()}
    return attend_share(group, prompt.backend, batch, batch.forward_batch, prompt.implementation, prompt.parts, **given)


def attend_share(
    group: RankGroup,
    name: str,
    batch: Batch,
    asked: ForwardBatch,
    implementation: str = "auto",
    parts: bool = False,
    **arguments: Any,
) -> torch.Tensor:
    """[tokens, heads, v_head_dim] of all ranks, by one that has its own rows; its pool then has everyone's."""
    runner = rank_runner(batch, group, implementation)
    backend = create_attention_backend(name, runner)
    assert isinstance(backend, PromptParallelBackend)
    forward_batch = replace(asked, token_to_kv_pool=runner.token_to_kv_pool)
    backend.prepare(forward_batch)
    shares: PromptShares | None = forward_batch.attn_cp_metadata
    layer = batch.layer  # an FP8 pool's rows are read back as they were before they were stored
    rows = ((batch.k, layer.k_scale), (batch.v, layer.v_scale))
    mine = [batch.q, *(each.to(batch.dtype) * (scale or 1.0) for each, scale in rows)]
    if shares is not None:
        mine = [shares.shard(each) for each in mine]
        chosen = arguments.get("topk_indices")
        if chosen is not None:
            arguments["topk_indices"] = shares.shard(chosen)
    q, k, v = mine
    if parts:
        latent = layer.v_head_dim
        arguments |= {"q_rope": q[..., latent:], "k_rope": k[..., latent:]}
        q, k = q[..., :latent], k[..., :latent]
    o = backend.forward(q, k, v, layer, forward_batch, **arguments).view(len(q), -1, layer.v_head_dim)
    kept = batch.runner.token_to_kv_pool.named_buffers(layer.layer_id)
    for name, buffer in runner.token_to_kv_pool.named_buffers(layer.layer_id).items():
        assert torch.equal(buffer.float(), kept[name].float()), f"{name} rows of rank {group.rank}"
    return o if shares is None else shares.gather(o)


def attend_prompts(tp: TensorParallel, prompts: list[Prompt]) -> list[torch.Tensor]:
    return [attend_prompt(tp, prompt) for prompt in prompts]
