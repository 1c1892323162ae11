"""Engines on a CPU whose graphs are as those of a GPU."""

from __future__ import annotations

import torch

from sglab.engine import ForwardBatch
from sglab.engine.graphs import as_launch
from sglab.serving import Engine
from sglab.serving.execution import InlineExecution
from sglab.serving.graph_runner import CudaGraphRunner


def finding_inputs(made: Engine) -> Engine:
    """The same engine with graphs that find their tokens and positions and choose greedily, as on a GPU."""
    worker = made.worker
    sizes = worker.graph_runner.capture_bs
    worker.graph_runner = CudaGraphRunner(worker.model, worker.runner, worker.backend, sizes, worker.output_tokens)
    return made


class FillingRunner(CudaGraphRunner):
    """Metadata are made in the graph, by one launch."""

    def _fill(self, batch: ForwardBatch) -> bool:
        done = torch.zeros(1)

        def fill() -> torch.Tensor:
            self.backend.prepare(batch)
            return done

        as_launch("fill", fill, batch.seq_lens)
        return True


def advancing(made: Engine) -> Engine:
    """The same engine, whose graphs make a pass's inputs of those of the pass before, as on a GPU with triton, where
    passes are launched at once."""
    worker = made.worker
    made._execution.close()
    made._execution = InlineExecution()
    worker.runner.check_metadata = False
    sizes = worker.graph_runner.capture_bs
    worker.graph_runner = FillingRunner(worker.model, worker.runner, worker.backend, sizes, worker.output_tokens)
    made.scheduler.advances = worker.graph_runner.advances
    return made
