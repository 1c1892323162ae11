"""ParallelWorker: runs passes of one or several groups on all ranks, and samples here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch

from sglab.engine import ForwardBatch, HiRadixCache, RadixCache
from sglab.engine.batch import ModelWorkerBatch
from sglab.engine.scheduler import PassResult, ScheduledPass
from sglab.serving.config import EngineConfig
from sglab.serving.ranks.launch import RankDiedError, Ranks
from sglab.serving.ranks.rank_model import (
    Found,
    GroupPass,
    HostCopy,
    Message,
    Moves,
    RankModel,
    Table,
    on_cpu,
    table_of,
)
from sglab.serving.speculative_worker import SpeculativeWorker
from sglab.serving.worker import ModelWorker, PassInputs, on_host


@dataclass(frozen=True)
class GroupInputs:
    """A group's pass, with the slots that ranks need: nothing in it changes afterwards."""

    inputs: PassInputs
    table: Table


class ParallelWorker:
    """Stands where a ModelWorker stands in an engine of one process.

    Args:
        workers: one for each group, over the books of its pools: the first one's model and KV are rank 0's.
        caches: of each group; what they copy to the host and back every rank of the group copies.
        speculative: what verifies drafts with the first of them; None: every pass decodes plainly.
    """

    def __init__(
        self,
        workers: Sequence[ModelWorker],
        caches: Sequence[RadixCache],
        ranks: Ranks,
        config: EngineConfig,
        speculative: SpeculativeWorker | None = None,
    ) -> None:
        self.workers, self.ranks, self.speculative = list(workers), ranks, speculative
        self.rank_model = RankModel.on(workers[0].model, workers[0].runner, config)
        ranks.before_leaving.append(self.rank_model.close)
        workers[0].graph_runner = self.rank_model.graph_runner
        workers[0].piecewise_runner = self.rank_model.piecewise_runner
        self.rank_model.states = workers[0].states
        workers[0].others = self
        for group, cache in enumerate(caches):
            if isinstance(cache, HiRadixCache):
                cache.host_pool.copied = partial(self._copy_rows, group)
        self._verifying: Table = ()

    def inputs(self, scheduled: Sequence[ScheduledPass | None]) -> list[GroupInputs | None]:
        """What each group's pass needs of its requests, taken now."""
        return [
            None if one is None else GroupInputs(worker.inputs(one), table_of(one.worker_batch, worker.runner))
            for worker, one in zip(self.workers, scheduled, strict=True)
        ]

    @torch.inference_mode()
    def forward(self, inputs: Sequence[GroupInputs | None]) -> Callable[[], list[PassResult | None]]:
        """Run a pass of every group that has one. Returns what waits for their tokens.

        Raises:
            RankDiedError: a rank has ended.
        """
        first = inputs[0]
        if first is not None and first.inputs.batch.forward_mode.is_target_verify():
            assert self.speculative is not None
            self._verifying = first.table
            verified = self.speculative.forward(first.inputs)
            return lambda: self._answered([verified()])
        pairs = list(zip(self.workers, inputs, strict=True))
        batches = [None if one is None else worker.forward_batch(one.inputs.batch) for worker, one in pairs]
        message = tuple(
            None if one is None or batch is None else _message(one, batch.input_ids)
            for one, batch in zip(inputs, batches, strict=True)
        )
        found = self._run(message)
        waiting: list[Callable[[], PassResult] | None] = []
        for (worker, one), batch, mine in zip(pairs, batches, found, strict=True):
            if one is None or batch is None:
                waiting.append(None)
            elif mine.logits is None:
                waiting.append(on_host(None, one.inputs, read=mine.prompt))
            else:
                sampled = worker.sample(mine.logits, batch, one.inputs)
                worker.output_tokens[batch.req_pool_indices] = sampled.tokens
                waiting.append(on_host(sampled, one.inputs, mine.graph_bs, mine.prompt))
        return lambda: self._answered([None if each is None else each() for each in waiting])

    def _answered(self, found: list[PassResult | None]) -> list[PassResult | None]:
        """What the device has computed, unless a rank has ended: a graph whose collectives were given up goes on with
        whatever they left."""
        self.ranks.check()
        return found

    def verify(self, batch: ForwardBatch) -> torch.Tensor:
        """[nodes, vocab] logits of drafts, of the one group that there is.

        Raises:
            RankDiedError: a rank has ended.
        """
        assert batch.positions is not None and batch.seq_lens_cpu is not None
        planned = ModelWorkerBatch(
            forward_mode=batch.forward_mode,
            input_ids=batch.input_ids,
            req_pool_indices=batch.req_pool_indices,
            seq_lens=batch.seq_lens,
            out_cache_loc=batch.out_cache_loc,
            seq_lens_cpu=batch.seq_lens_cpu,
            seq_lens_sum=batch.seq_lens_sum,
            spec_info=replace(batch.spec_info, custom_mask=batch.spec_info.custom_mask.cpu()),
            rids=batch.rids,
        )
        one = GroupPass(on_cpu(planned), self._verifying, True, positions=batch.positions.cpu())
        logits = self._run((one,))[0].logits
        assert logits is not None
        return logits

    def move_rows(self, targets: torch.Tensor, sources: torch.Tensor) -> None:
        """Let the other ranks move what accepted drafts have in their pools."""
        self.ranks.broadcast(Moves(targets.cpu(), sources.cpu()))

    def _copy_rows(self, group: int, host_slots: torch.Tensor, device_slots: torch.Tensor, back: bool) -> None:
        """Let the other ranks of a group copy what its cache has just copied."""
        try:
            self.ranks.broadcast(HostCopy(group, host_slots.cpu(), device_slots.cpu(), back))
        except RankDiedError:
            return  # the next pass raises it, where its requests can be failed

    def _run(self, message: Message) -> list[Found]:
        self.ranks.broadcast(message)
        try:
            return self.rank_model.run(message)
        except RuntimeError as error:
            raise self.ranks.died(error) from error


def _message(one: GroupInputs, tokens: torch.Tensor) -> GroupPass:
    """A planned pass with its tokens, without placeholders, as ranks take it."""
    inputs = one.inputs
    prompt = None if inputs.scores is None else inputs.scores.rows
    return GroupPass(on_cpu(inputs.batch, input_ids=tokens), one.table, inputs.samples, prompt)
