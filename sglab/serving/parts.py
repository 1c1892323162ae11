"""What an engine consists of around its model: pools, backend, worker, captured graphs, drafts, scheduler, ranks."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sglab.attention import Demand, create_attention_backend
from sglab.engine import ForwardMode, ModelRunner, RadixCache
from sglab.engine.scheduler import Scheduler
from sglab.models import CausalLM, Tokenizer
from sglab.serving.batch_invariant import batch_invariant
from sglab.serving.config import EngineConfig
from sglab.serving.encoders import has_encoder, refuse_cross_attention
from sglab.serving.execution import Execution, InlineExecution, ThreadExecution, torch_threads
from sglab.serving.graph_runner import CudaGraphRunner, captures_decodes
from sglab.serving.piecewise_runner import PiecewiseGraphRunner
from sglab.serving.pools import make_pools
from sglab.serving.ranks import Ranks
from sglab.serving.ranks.dp_scheduler import DpScheduler
from sglab.serving.ranks.parts import group_parts
from sglab.serving.ranks.worker import ParallelWorker
from sglab.serving.speculation import Draft, speculation
from sglab.serving.speculative_worker import SpeculativeWorker
from sglab.serving.worker import ModelWorker


@dataclass(frozen=True)
class EngineParts:
    """`runs`: what runs passes, the worker or a SpeculativeWorker around it. `parallel`: with several ranks."""

    execution: Execution
    runner: ModelRunner
    tree_cache: RadixCache
    worker: ModelWorker
    runs: ModelWorker | SpeculativeWorker
    scheduler: Scheduler | DpScheduler
    parallel: ParallelWorker | None


def make_parts(
    model: CausalLM, config: EngineConfig, tokenizer: Tokenizer | None, ranks: Ranks | None, draft_model: Draft | None
) -> EngineParts:
    """Make them, and capture the graphs.

    Raises:
        BadArgumentError, UnsupportedError: a model, a backend or an option that does not fit.
        RankDiedError: another rank did not come up.
    """
    on_cpu = model.device.type == "cpu"
    overlap = config.overlaps(model.device.type)
    threads = config.threads(sum(parameter.numel() for parameter in model.parameters())) if on_cpu else None
    execution: Execution = ThreadExecution(threads) if overlap and on_cpu else InlineExecution(threads)
    pools = make_pools(model, config, execution.submit)
    backend = create_attention_backend(config.backend(model.device.type), pools.runner)
    backend.refuse_unserved(Demand(mode=ForwardMode.DECODE))  # some KV formats are read in prompts alone
    refuse_cross_attention(model, backend)
    worker = ModelWorker(model, pools.runner, backend, config.random_seed)
    if ranks is None:
        with torch_threads(threads), batch_invariant(config.enable_deterministic_inference):
            if captures_decodes(config, backend, model.device.type, has_encoder(model)):
                last = worker.output_tokens if model.device.type == "cuda" else None  # on a CPU inputs are shown
                sizes, lists = config.capture_sizes(), config.replay_launches
                worker.graph_runner = CudaGraphRunner(model, pools.runner, backend, sizes, last, lists)
            if config.enable_piecewise_cuda_graph:
                worker.piecewise_runner = PiecewiseGraphRunner(model, pools.runner, backend, config.capture_tokens())
    speculative = speculation(worker, config, draft_model)
    slots = 1 if speculative is None else speculative.drafter.num_slots
    decode = None if tokenizer is None else tokenizer.decode
    scheduler = Scheduler(config.scheduler(overlap), pools.tree_cache, decode, slots)
    if worker.graph_runner is not None and isinstance(execution, InlineExecution):
        scheduler.advances = worker.graph_runner.advances
    parts = EngineParts(execution, pools.runner, pools.tree_cache, worker, speculative or worker, scheduler, None)
    if ranks is None:
        return parts
    with torch_threads(threads):
        groups, parallel = group_parts(scheduler, worker, ranks, config, execution.submit, speculative)
    return replace(parts, scheduler=groups, parallel=parallel)
