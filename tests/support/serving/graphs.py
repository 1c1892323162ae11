"""Engines on a CPU whose graphs are as those of a GPU."""

from __future__ import annotations

from sglab.serving import Engine
from sglab.serving.graph_runner import CudaGraphRunner


def finding_inputs(made: Engine) -> Engine:
    """The same engine with graphs that find their tokens and positions and choose greedily, as on a GPU."""
    worker = made.worker
    sizes = worker.graph_runner.capture_bs
    worker.graph_runner = CudaGraphRunner(worker.model, worker.runner, worker.backend, sizes, worker.output_tokens)
    return made
