"""The registry of attention backends: names, and where each is. A backend's module is imported at its first use."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from sglab.attention.capabilities import Capabilities
from sglab.attention.upstream import SGLANG_BACKENDS
from sglab.engine import ModelRunner

Factory = Callable[[ModelRunner], Any]
"""Makes a backend for a model runner: the backend's class, as a rule."""

ATTENTION_BACKENDS: dict[str, str | Factory] = {
    "cutlass_mla": "sglab.attention.cutlass_mla_backend:CutlassMLABackend",
    "flashmla": "sglab.attention.flashmla_backend:FlashMLABackend",
    "flex_attention": "sglab.attention.flex_attention:TorchFlexAttnBackend",
    "torch_native": "sglab.attention.torch_native:TorchNativeAttnBackend",
    "triton": "sglab.attention.triton_backend:TritonAttnBackend",
}
"""Backends that run here: "module:Class", or a factory that was registered."""


class UnknownBackendError(ValueError):
    """No backend of this name; the message lists those there are and suggests the nearest."""


def register_attention_backend(name: str) -> Callable[[Factory], Factory]:
    """Register a factory (or a backend class) under a name; a later one of the same name replaces it."""

    def decorator(factory: Factory) -> Factory:
        ATTENTION_BACKENDS[name] = factory
        return factory

    return decorator


def backend_factory(name: str) -> Factory:
    """What makes the backend of this name; its module is imported now if it was not.

    Raises:
        UnknownBackendError: it is not registered here.
    """
    entry = ATTENTION_BACKENDS.get(name) if isinstance(name, str) else None
    if entry is None:
        raise UnknownBackendError(_unknown(name))
    if not isinstance(entry, str):
        return entry
    module, _, attribute = entry.partition(":")
    return getattr(import_module(module), attribute)


def capabilities_by_name() -> dict[str, Capabilities]:
    """Every registered backend's capabilities; a factory that declares none is left out."""
    declared = {name: getattr(backend_factory(name), "capabilities", None) for name in ATTENTION_BACKENDS}
    return {name: found for name, found in declared.items() if isinstance(found, Capabilities)}


def _unknown(name: object) -> str:
    known = ", ".join(sorted(ATTENTION_BACKENDS))
    if not isinstance(name, str):
        return f"backend: expected the name of one, got {name!r}; choose one of {known}"
    if any(name in names for names in SGLANG_BACKENDS.values()):
        return f"backend {name!r} is one of SGLang's, but sglab does not have it; choose one of {known}"
    near = difflib.get_close_matches(name.lower().replace("-", "_"), ATTENTION_BACKENDS, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown attention backend {name!r}; known are {known}.{hint}"
