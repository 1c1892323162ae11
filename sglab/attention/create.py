"""create_attention_backend: a backend by name, for one model runner."""

from __future__ import annotations

from sglab.attention.base import AttentionBackend
from sglab.attention.dcp.backend import ContextParallelBackend
from sglab.attention.registry import backend_factory
from sglab.engine import ModelRunner


def create_attention_backend(name: str, runner: ModelRunner) -> AttentionBackend:
    """Make a backend.

    Args:
        name: a key of ATTENTION_BACKENDS.
        runner: the pools, the model's shape and the device that it will serve.

    Raises:
        UnknownBackendError: it is not registered here.
        UnsupportedError: it does not serve this kind of attention or this page size, or no context that is spread over
            ranks (`ModelRunner.dcp`).
    """
    if runner.dcp is None:
        return backend_factory(name)(runner)
    factory = backend_factory(name, runner.model_config.kind)
    return ContextParallelBackend(name, factory, runner, runner.dcp)
