"""create_attention_backend: a backend by name, for one model runner."""

from __future__ import annotations

from sglab.attention.base import AttentionBackend
from sglab.attention.cp.backend import PromptParallelBackend
from sglab.attention.dcp.backend import ContextParallelBackend
from sglab.attention.registry import backend_factory
from sglab.engine import BadArgumentError, ModelRunner


def create_attention_backend(name: str, runner: ModelRunner) -> AttentionBackend:
    """Make a backend.

    Args:
        name: a key of ATTENTION_BACKENDS.
        runner: the pools, the model's shape and the device that it will serve.

    Raises:
        UnknownBackendError: it is not registered here.
        UnsupportedError: it does not serve this kind of attention or this page size, or no context that is spread over
            ranks (`ModelRunner.dcp`), or no prompt that is (`ModelRunner.attn_cp`).
        BadArgumentError: both are.
    """
    if runner.dcp is None and runner.attn_cp is None:
        return backend_factory(name)(runner)
    factory = backend_factory(name, runner.model_config.kind)
    if runner.dcp is None:
        assert runner.attn_cp is not None
        return PromptParallelBackend(name, factory, runner, runner.attn_cp)
    if runner.attn_cp is not None:
        remedy = "Spread either a request's context over ranks or its prompt."
        raise BadArgumentError("attn_cp_size", "1 with dcp_size above 1", runner.attn_cp.size, remedy)
    return ContextParallelBackend(name, factory, runner, runner.dcp)
