"""speculation: the SpeculativeWorker that an engine's options ask for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sglab.attention import create_attention_backend
from sglab.engine.errors import BadArgumentError
from sglab.models import CausalLM, load_model
from sglab.serving.config import EngineConfig
from sglab.serving.drafters import Drafter, ModelDrafter, NgramDrafter
from sglab.serving.pools import kv_pool
from sglab.serving.speculative_worker import SpeculativeWorker
from sglab.serving.worker import ModelWorker


def speculation(
    worker: ModelWorker, config: EngineConfig, draft_model: str | Path | CausalLM | None
) -> SpeculativeWorker | None:
    """A worker that drafts, or None where nothing is asked for.

    Raises:
        BadArgumentError: a draft model is missing, not wanted, or of another vocabulary.
    """
    algorithm = config.speculative_algorithm
    if (draft_model is not None) != (algorithm == "STANDALONE"):
        expected = "a model with speculative_algorithm='STANDALONE', and none otherwise"
        raise BadArgumentError("draft_model", expected, f"{draft_model!r} with {algorithm!r}", "Change one of the two.")
    if algorithm is None:
        return None
    if draft_model is None:
        drafter: Drafter = NgramDrafter(config.speculative_num_draft_tokens)
        return SpeculativeWorker(worker, drafter, topk=2)
    topk = config.speculative_eagle_topk
    drafter = model_drafter(worker, config, draft_model)
    return SpeculativeWorker(worker, drafter, topk)


def model_drafter(worker: ModelWorker, config: EngineConfig, draft_model: str | Path | CausalLM) -> ModelDrafter:
    """A drafter over a KV pool of its own, of as many slots as the target's."""
    target = worker.runner
    model = draft_model if isinstance(draft_model, CausalLM) else None
    if model is None:
        model = load_model(draft_model, dtype=target.dtype, device=target.device)  # type: ignore[arg-type]
    if model.config.vocab_size != worker.model.config.vocab_size:
        expected = f"the target's vocabulary of {worker.model.config.vocab_size} tokens"
        raise BadArgumentError("draft_model", expected, model.config.vocab_size, "Choose another draft model.")
    shape = model.attention_config()
    pool = kv_pool(model, shape, target.token_to_kv_pool.size, target.page_size)
    runner = replace(target, model_config=shape, token_to_kv_pool=pool, dtype=model.dtype)
    backend = create_attention_backend(config.backend(target.device.type), runner)
    steps, topk, drafts = (
        config.speculative_num_steps,
        config.speculative_eagle_topk,
        config.speculative_num_draft_tokens,
    )
    most = topk + topk * topk * (steps - 1)
    if drafts - 1 > most:
        expected = f"at most {most + 1} with {steps} steps of {topk}"
        raise BadArgumentError("speculative_num_draft_tokens", expected, drafts, "Lower it or draft more steps.")
    return ModelDrafter(model, runner, backend, steps, topk, drafts)
