"""speculation: the SpeculativeWorker that an engine's options ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from sglab.attention import create_attention_backend
from sglab.attention.capabilities import Demand
from sglab.engine import ForwardMode, ModelConfig, ModelRunner
from sglab.engine.errors import BadArgumentError
from sglab.engine.speculation import VerifyInput
from sglab.layers import RadixAttention
from sglab.models import CausalLM, load_model, load_mtp
from sglab.serving.config import EngineConfig
from sglab.serving.drafters import Drafter, ModelDrafter, NgramDrafter
from sglab.serving.hidden_drafter import DraftLayer, HiddenDrafter
from sglab.serving.pools import kv_pool
from sglab.serving.speculative_worker import SpeculativeWorker
from sglab.serving.worker import ModelWorker

Draft = str | Path | CausalLM | DraftLayer
"""A draft model, or where one is read."""
WITH_MODEL = ("STANDALONE", "EAGLE")
NGRAM_TOPK = 2
"""Its drafts are trees: a node may have several children."""


def speculation(worker: ModelWorker, config: EngineConfig, draft_model: Draft | None) -> SpeculativeWorker | None:
    """A worker that drafts, or None where nothing is asked for.

    Raises:
        BadArgumentError: a draft model is missing, not wanted, or of another vocabulary.
    """
    algorithm = config.speculative_algorithm
    if algorithm is not None:
        _refuse_unserved_drafts(worker, NGRAM_TOPK if algorithm == "NGRAM" else config.speculative_eagle_topk)
    if (draft_model is not None) != (algorithm in WITH_MODEL):
        expected = f"a model with speculative_algorithm={' or '.join(map(repr, WITH_MODEL))}, and none otherwise"
        raise BadArgumentError("draft_model", expected, f"{draft_model!r} with {algorithm!r}", "Change one of the two.")
    if algorithm is None:
        return None
    if draft_model is None:
        return SpeculativeWorker(worker, NgramDrafter(config.speculative_num_draft_tokens), topk=NGRAM_TOPK)
    _check_tree(config)
    make: Callable[..., Drafter] = hidden_drafter if algorithm == "EAGLE" else model_drafter
    return SpeculativeWorker(worker, make(worker, config, draft_model), config.speculative_eagle_topk)


def model_drafter(worker: ModelWorker, config: EngineConfig, draft_model: str | Path | CausalLM) -> ModelDrafter:
    """A drafter over a KV pool of its own, of as many slots as the target's."""
    target = worker.runner
    model = draft_model if isinstance(draft_model, CausalLM) else None
    if model is None:
        model = load_model(draft_model, dtype=target.dtype, device=target.device)  # type: ignore[arg-type]
    if model.config.vocab_size != worker.model.config.vocab_size:
        expected = f"the target's vocabulary of {worker.model.config.vocab_size} tokens"
        raise BadArgumentError("draft_model", expected, model.config.vocab_size, "Choose another draft model.")
    runner = _runner(worker, model, model.attention_config(), model.dtype)
    backend = create_attention_backend(config.backend(target.device.type), runner)
    return ModelDrafter(model, runner, backend, *_tree(config))


def hidden_drafter(worker: ModelWorker, config: EngineConfig, draft_model: str | Path | DraftLayer) -> HiddenDrafter:
    """A drafter from the target's hidden states; a folder's is the MTP layer of a DeepSeek checkpoint."""
    target = worker.runner
    draft = load_mtp(draft_model, worker.model) if isinstance(draft_model, (str, Path)) else draft_model  # type: ignore[arg-type]
    runner = _runner(worker, worker.model, draft.attention_config(), target.dtype)
    backend = create_attention_backend(config.backend(target.device.type), runner)
    pool = target.token_to_kv_pool
    slots = pool.size + target.page_size  # the dummy page, too
    worker.states = torch.zeros(slots, worker.model.config.hidden_size, dtype=target.dtype, device=target.device)
    return HiddenDrafter(draft, runner, backend, worker.states, *_tree(config))


def _runner(worker: ModelWorker, model: CausalLM, shape: ModelConfig, dtype: torch.dtype) -> ModelRunner:
    """The target's books, over a KV pool of the draft's shape; drafts are whole on their rank."""
    target = worker.runner
    pool = kv_pool(model, shape, target.token_to_kv_pool.size, target.page_size)
    return replace(target, model_config=shape, token_to_kv_pool=pool, dtype=dtype, tp_size=1)


def _tree(config: EngineConfig) -> tuple[int, int, int]:
    return config.speculative_num_steps, config.speculative_eagle_topk, config.speculative_num_draft_tokens


def _refuse_unserved_drafts(worker: ModelWorker, topk: int) -> None:
    """Refuse at once what the first verification would refuse.

    Raises:
        UnsupportedError: the backend verifies no drafts, no trees, or none with a layer's window.
    """
    if worker.backend.capabilities.fallback:
        return  # which verifies what this one does not
    drafts = VerifyInput(2, torch.ones(0, dtype=torch.bool), topk)
    for layer in worker.model.modules():
        if isinstance(layer, RadixAttention):
            worker.backend.refuse_unserved(
                Demand(mode=ForwardMode.TARGET_VERIFY, spec_info=drafts, dtype=worker.model.dtype, layer=layer.shape)
            )


def _check_tree(config: EngineConfig) -> None:
    steps, topk, drafts = _tree(config)
    most = topk + topk * topk * (steps - 1)
    if drafts - 1 > most:
        expected = f"at most {most + 1} with {steps} steps of {topk}"
        raise BadArgumentError("speculative_num_draft_tokens", expected, drafts, "Lower it or draft more steps.")
