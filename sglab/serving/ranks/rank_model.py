"""RankModel: one rank's part of a pass. All ranks run the same passes in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import distributed

from sglab.attention import AttentionBackend, create_attention_backend
from sglab.engine import ForwardBatch, ForwardMode, ModelRunner
from sglab.engine.batch import ModelWorkerBatch
from sglab.layers import LogitsProcessor, TensorParallel
from sglab.layers.dp_attention import DpBatch, DpPaddingMode
from sglab.models import CausalLM
from sglab.serving.batch_invariant import batch_invariant
from sglab.serving.config import EngineConfig
from sglab.serving.execution import InlineExecution
from sglab.serving.pools import make_pools


@dataclass(frozen=True)
class GroupPass:
    """A group's pass as every rank of it runs it; tensors are on the CPU.

    Attributes:
        batch: its input_ids are tokens, not placeholders.
        table: of each request its row of req_to_token, where it begins, and slots from there on.
        samples: whether logits are wanted.
    """

    batch: ModelWorkerBatch
    table: tuple[tuple[int, int, torch.Tensor], ...]
    samples: bool

    @property
    def rows(self) -> int:
        """Of the logits: one per request."""
        return len(self.batch.seq_lens) if self.samples else 0


Message = tuple[GroupPass | None, ...]
"""What each group runs; None: it is idle."""


class RankModel:
    """A shard with its own KV pool."""

    def __init__(self, model: CausalLM, runner: ModelRunner, backend: AttentionBackend) -> None:
        self.model, self.runner, self.backend = model, runner, backend

    @classmethod
    def over(cls, model: CausalLM, config: EngineConfig) -> RankModel:
        """A shard over pools and a backend of its own."""
        runner = make_pools(model, config, InlineExecution().submit).runner
        return cls(model, runner, create_attention_backend(config.backend(model.device.type), runner))

    @torch.inference_mode()
    def run(self, message: Message) -> list[torch.Tensor | None]:
        """Run a pass.

        Returns:
            On rank 0 each group's logits, float32 [requests, vocab_size], or None where none are wanted; elsewhere
            nothing of use.
        """
        tp, device = self.model.tp, self.runner.device
        mine = message[tp.dp_rank]
        batch = self._forward_batch(mine)
        if tp.dp_size > 1:
            batch.dp = dp_batch(message, tp)
        logits: list[torch.Tensor | None] = [None] * len(message)
        with batch_invariant(self.runner.enable_deterministic_inference):
            if mine is not None:
                self.backend.prepare(batch)
            assert batch.positions is not None
            hidden = self.model(batch.input_ids, batch.positions, batch)
            if mine is not None and mine.samples:
                rows = LogitsProcessor.sampled_rows(hidden, batch)
                logits[tp.dp_rank] = self.model.compute_logits(rows)
        for group, one in enumerate(message):
            leader = group * (tp.size // tp.dp_size)
            if one is None or not one.samples or leader == 0 or tp.rank not in (0, leader):
                continue
            if tp.rank == leader:
                found = logits[group]
                assert found is not None
                distributed.send(found.contiguous(), 0)
            else:
                theirs = torch.empty(one.rows, self.model.config.vocab_size, device=device)
                distributed.recv(theirs, leader)
                logits[group] = theirs
        return logits

    def _forward_batch(self, mine: GroupPass | None) -> ForwardBatch:
        if mine is None:
            empty = torch.empty(0, dtype=torch.int64)
            idle = ModelWorkerBatch(ForwardMode.IDLE, empty, empty, empty, empty, empty, 0)
            batch = ForwardBatch.init_new(idle, self.runner)
        else:
            table = self.runner.req_to_token_pool.req_to_token
            for row, start, slots in mine.table:
                table[row, start : start + len(slots)] = slots.to(table.device, table.dtype)
            batch = ForwardBatch.init_new(mine.batch, self.runner)
        batch.attn_backend = self.backend
        return batch


def dp_batch(message: Message, tp: TensorParallel) -> DpBatch:
    """How the groups' tokens are laid out."""
    counts = tuple(0 if one is None else len(one.batch.input_ids) for one in message)
    extends = any(one is not None and one.batch.forward_mode.is_extend() for one in message)
    return DpBatch(counts, DpPaddingMode.get_dp_padding_mode(extends, counts), tp)


def group_pass(batch: ModelWorkerBatch, tokens: torch.Tensor, runner: ModelRunner, samples: bool) -> GroupPass:
    """A planned pass with its tokens, as ranks take it.

    Args:
        tokens: int64, the batch's input without placeholders.
        runner: whose req_to_token the requests' rows are in.
    """
    table, rows = runner.req_to_token_pool.req_to_token, batch.req_pool_indices.tolist()
    lengths: Sequence[int] = batch.seq_lens_cpu.tolist()
    decoding = batch.forward_mode.is_decode()
    spans = [(row, length - 1 if decoding else 0, length) for row, length in zip(rows, lengths, strict=True)]
    slots = tuple((row, start, table[row, start:end].cpu().clone()) for row, start, end in spans)
    cpu: dict[str, Any] = {name: one.cpu() for name, one in vars(batch).items() if isinstance(one, torch.Tensor)}
    return GroupPass(replace(batch, **cpu | {"input_ids": tokens.cpu()}), slots, samples)
