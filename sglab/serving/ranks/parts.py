"""What an engine has beside its own parts when it runs on several ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sglab.engine.cache.hiradix_cache import Submit
from sglab.engine.errors import BadArgumentError
from sglab.engine.scheduler import Scheduler
from sglab.layers.moe import Mixture
from sglab.layers.moe.dispatcher import FP8_GROUP
from sglab.models import CausalLM, load_model
from sglab.serving.config import EngineConfig
from sglab.serving.pools import make_pools
from sglab.serving.ranks.dp_scheduler import DpScheduler
from sglab.serving.ranks.launch import Ranks
from sglab.serving.ranks.worker import ParallelWorker
from sglab.serving.speculative_worker import SpeculativeWorker
from sglab.serving.worker import ModelWorker


def start_ranks(model: object, dtype: object, device: str, config: EngineConfig) -> Ranks | None:
    """The other ranks, which begin to load their shards; None with tp_size 1.

    Raises:
        BadArgumentError: fewer GPUs than ranks, or this process is in a process group already.
        RankDiedError: one did not come up.
    """
    if config.tp_size == 1:
        return None
    kind = torch.device(device).type
    if kind == "cuda" and torch.cuda.device_count() < config.tp_size:
        expected = f"at most the {torch.cuda.device_count()} GPUs of this machine"
        raise BadArgumentError("tp_size", expected, config.tp_size, "Lower it, or use device='cpu'.")
    ranks = Ranks(str(model), None if dtype is None else str(dtype).removeprefix("torch."), kind, config)
    ranks.load()
    return ranks


def load_share(model: str | Path, dtype: Any, device: Any, ranks: Ranks | None, config: EngineConfig) -> CausalLM:
    """This process's shard, or all of the model; the other ranks load theirs meanwhile. Raises as load_model does."""
    if ranks is None:
        return load_model(model, dtype=dtype, device=device, expert_location=config.init_expert_location)
    try:
        here, held = ranks.world.device(0), config.init_expert_location
        return load_model(model, dtype=dtype, device=here, tp=ranks.tp, expert_location=held)
    except BaseException:
        ranks.close()
        raise


def group_parts(
    first: Scheduler,
    worker: ModelWorker,
    ranks: Ranks,
    config: EngineConfig,
    submit: Submit,
    speculative: SpeculativeWorker | None = None,
) -> tuple[DpScheduler, ParallelWorker]:
    """A scheduler and a worker's books for each group that attends apart; `first` and `worker` are group 0's.

    Args:
        submit: runs copies between the device and the host in the order of the passes.
        speculative: what verifies drafts with `worker`, if anything does.

    Raises:
        BadArgumentError: groups, with a model that cannot be idle. RankDiedError: a rank could not load its shard.
    """
    asked = {"dp_size": config.dp_size > 1, "enable_two_batch_overlap": config.enable_two_batch_overlap}
    for name, value in asked.items():
        if value and worker.model.state_config() is not None:
            expected = "its default with a model that keeps recurrent states"
            raise BadArgumentError(name, expected, getattr(config, name), "Leave it out.")
    if config.moe_a2a_backend is not None:
        check_travels(worker.model, config)
    ranks.make_pools(config, worker.runner.token_to_kv_pool.size)
    workers, schedulers, caches = [worker], [first], [first.tree_cache]
    for _ in range(1, config.dp_size):
        books = make_pools(worker.model, config, submit, planned=True)
        workers.append(ModelWorker(worker.model, books.runner, worker.backend, config.random_seed))
        caches.append(books.tree_cache)
        schedulers.append(Scheduler(first.config, books.tree_cache, first.decode, 1))
    try:
        parallel = ParallelWorker(
            workers, caches, ranks, config, speculative
        )  # captures graphs together with the others
    except BadArgumentError:  # what every rank refuses
        raise
    except RuntimeError as error:
        raise ranks.died(error) from error
    ranks.ready()
    return DpScheduler(schedulers), parallel


def check_travels(model: CausalLM, config: EngineConfig) -> None:
    """Refuse models whose tokens cannot travel to experts.

    Raises:
        BadArgumentError: no mixture that could take them, or rows that e4m3 does not fit.
    """
    if not any(isinstance(module, Mixture) for module in model.modules()):
        expected = "None with a model without experts that tokens can travel to"
        raise BadArgumentError("moe_a2a_backend", expected, type(model).__name__, "Leave it out.")
    hidden = model.config.hidden_size
    if config.deepep_mode != "normal" and not config.deepep_bf16_dispatch and hidden % FP8_GROUP:
        expected = f"True with a hidden size of {hidden}, no multiple of {FP8_GROUP}"
        raise BadArgumentError("deepep_bf16_dispatch", expected, False, 'Pass True, or deepep_mode="normal".')
