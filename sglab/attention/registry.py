"""The registry of attention backends: a decorator adds one, `create_attention_backend` makes one by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from sglab.attention.base import AttentionBackend
from sglab.engine import ModelRunner

Factory = Callable[[ModelRunner], AttentionBackend]

ATTENTION_BACKENDS: dict[str, Factory] = {}
"""Backends that run here."""

_COMMON = """flashinfer trtllm_mla aiter wave ascend nsa triton torch_native flex_attention flashmla fa3 fa4 cutlass_mla
trtllm_mha intel_amx dual_chunk_flash_attn intel_xpu"""

SGLANG_BACKENDS: dict[str, tuple[str, ...]] = {
    "0.5.5.post1": tuple(_COMMON.split()),
    "0.5.9": tuple(_COMMON.split()),
}
"""SGLang version -> registered names, in its registry's order."""

FORWARD_ABSORB_CORE_ATTENTION_BACKENDS = ("fa3", "nsa", "flashinfer", "cutlass_mla", "trtllm_mla", "ascend")
"""Names to which the model hands the rotary part apart (q_rope, k_rope); the others get it concatenated."""


class UnknownBackendError(ValueError):
    """No backend of this name; the message lists those there are and suggests the nearest."""


def register_attention_backend(name: str) -> Callable[[Factory], Factory]:
    """Register a factory (or a backend class) under a name; a later one of the same name replaces it."""

    def decorator(factory: Factory) -> Factory:
        ATTENTION_BACKENDS[name] = factory
        return factory

    return decorator


def create_attention_backend(name: str, runner: ModelRunner) -> AttentionBackend:
    """Make a backend.

    Raises:
        UnknownBackendError: it is not registered here.
    """
    factory = ATTENTION_BACKENDS.get(name) if isinstance(name, str) else None
    if factory is None:
        raise UnknownBackendError(_unknown(name))
    return factory(runner)


def _unknown(name: object) -> str:
    known = ", ".join(sorted(ATTENTION_BACKENDS))
    if not isinstance(name, str):
        return f"backend: expected the name of one, got {name!r}; choose one of {known}"
    if name in SGLANG_BACKENDS["0.5.9"]:
        return f"backend {name!r} is one of SGLang's, but sglab does not have it; choose one of {known}"
    near = difflib.get_close_matches(name.lower().replace("-", "_"), ATTENTION_BACKENDS, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown attention backend {name!r}; known are {known}.{hint}"
