"""ParallelWorker: runs passes of one or several groups on all ranks, and samples here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from sglab.engine.scheduler import PassResult, ScheduledPass
from sglab.serving.config import EngineConfig
from sglab.serving.ranks.launch import Ranks
from sglab.serving.ranks.rank_model import GroupPass, RankModel, group_pass
from sglab.serving.worker import ModelWorker, PassInputs, on_host


class ParallelWorker:
    """Stands where a ModelWorker stands in an engine of one process.

    Args:
        workers: one for each group, over the books of its pools: the first one's model and KV are rank 0's.
    """

    def __init__(self, workers: Sequence[ModelWorker], ranks: Ranks, config: EngineConfig) -> None:
        self.workers, self.ranks = list(workers), ranks
        self.rank_model = RankModel.on(workers[0].model, workers[0].runner, config)

    def inputs(self, scheduled: Sequence[ScheduledPass | None]) -> list[PassInputs | None]:
        """What each group's pass needs of its requests, taken now."""
        return [
            None if one is None else worker.inputs(one) for worker, one in zip(self.workers, scheduled, strict=True)
        ]

    @torch.inference_mode()
    def forward(self, inputs: Sequence[PassInputs | None]) -> Callable[[], list[PassResult | None]]:
        """Run a pass of every group that has one. Returns what waits for their tokens.

        Raises:
            RankDiedError: a rank has ended.
        """
        batches = [
            None if one is None else worker.forward_batch(one.batch)
            for worker, one in zip(self.workers, inputs, strict=True)
        ]
        message = tuple(
            None if one is None or batch is None else _message(one, batch.input_ids, worker)
            for worker, one, batch in zip(self.workers, inputs, batches, strict=True)
        )
        self.ranks.broadcast(message)
        try:
            found = self.rank_model.run(message)
        except RuntimeError as error:
            raise self.ranks.died(error) from error
        waiting: list[Callable[[], PassResult] | None] = []
        for worker, one, batch, mine in zip(self.workers, inputs, batches, found, strict=True):
            if one is None or batch is None:
                waiting.append(None)
            elif mine.logits is None:
                waiting.append(on_host(None, one, read=mine.prompt))
            else:
                sampled = worker.sample(mine.logits, batch, one)
                worker.output_tokens[batch.req_pool_indices] = sampled.tokens
                waiting.append(on_host(sampled, one, read=mine.prompt))
        return lambda: [None if each is None else each() for each in waiting]


def _message(inputs: PassInputs, tokens: torch.Tensor, worker: ModelWorker) -> GroupPass:
    prompt = None if inputs.scores is None else inputs.scores.rows
    return group_pass(inputs.batch, tokens, worker.runner, inputs.samples, prompt)
