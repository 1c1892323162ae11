"""The registry of attention backends: names, and where each is. A backend's module is imported at its first use."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from sglab.attention.capabilities import Capabilities
from sglab.attention.upstream import ABSENT, SGLANG_BACKENDS
from sglab.engine import ModelRunner

Factory = Callable[[ModelRunner], Any]
"""Makes a backend for a model runner: the backend's class, as a rule."""
F = TypeVar("F", bound=Factory)

ByKind = dict[str, str]
"""Kind of attention -> "module:Class", of a name that has a class for each."""

_HERE = "sglab.attention"

ATTENTION_BACKENDS: dict[str, str | ByKind | Factory] = {
    "cutlass_mla": f"{_HERE}.cutlass_mla_backend:CutlassMLABackend",
    "flashmla": f"{_HERE}.flashmla_backend:FlashMLABackend",
    "flex_attention": f"{_HERE}.flex_attention:TorchFlexAttnBackend",
    "torch_native": f"{_HERE}.torch_native:TorchNativeAttnBackend",
    "triton": f"{_HERE}.triton_backend:TritonAttnBackend",
    "flashinfer": {
        "mha": f"{_HERE}.flashinfer.mha:FlashInferAttnBackend",
        "mla": f"{_HERE}.flashinfer.mla:FlashInferMLAAttnBackend",
    },
    "llada2_cfg_flashinfer": f"{_HERE}.flashinfer.llada2:LLaDA2CFGFlashInferAttnBackend",
    "fa3": f"{_HERE}.page_table.flash_attention:FlashAttention3Backend",
    "fa4": f"{_HERE}.page_table.flash_attention:FlashAttention4Backend",
    "trtllm_mha": f"{_HERE}.page_table.trtllm_mha:TRTLLMHAAttnBackend",
    "trtllm_mla": f"{_HERE}.trtllm_mla_backend:TRTLLMMLABackend",
    "cutedsl_mla": f"{_HERE}.trtllm_mla_backend:CuteDslMLABackend",
    "dsa": f"{_HERE}.sparse.dsa:DeepseekSparseAttnBackend",
    "nsa": f"{_HERE}.sparse.dsa:NativeSparseAttnBackend",
    "double_sparsity": f"{_HERE}.sparse.double_sparsity:DoubleSparseAttnBackend",
    "dual_chunk_flash_attn": f"{_HERE}.page_table.dual_chunk:DualChunkFlashAttentionBackend",
    "intel_amx": f"{_HERE}.vendors.intel_amx:IntelAMXAttnBackend",
    "aiter": {
        "mha": f"{_HERE}.vendors.aiter:AiterAttnBackend",
        "mla": f"{_HERE}.vendors.aiter:AiterMLAAttnBackend",
    },
    "wave": f"{_HERE}.vendors.wave:WaveAttnBackend",
    "ascend": {
        "mha": f"{_HERE}.vendors.ascend:AscendAttnBackend",
        "mla": f"{_HERE}.vendors.ascend:AscendMLAAttnBackend",
    },
    "intel_xpu": f"{_HERE}.vendors.intel_xpu:XPUAttentionBackend",
    "hpc_ops": f"{_HERE}.vendors.hpc_ops:HPCOpsAttnBackend",
}
"""Backends that run here: "module:Class", one per kind of attention, or a factory that was registered."""


class UnknownBackendError(ValueError):
    """No backend of this name; the message lists those there are and suggests the nearest."""


def register_attention_backend(name: str, *, replace: bool = False) -> Callable[[F], F]:
    """Register a backend of one's own; `Engine(attention_backend=name)`, `attend(batch, backend=name)` and the table
    of `sglab backends` then know it. A class that has no `name` of its own gets this one.

    Args:
        name: a later registration of the same name takes its place, so that a cell may be run again.
        replace: put it in the place of a backend that sglab ships, too.

    Raises:
        ValueError: no name, or the name of a backend that sglab ships.
        TypeError: what is registered cannot be called with a model runner.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"name: expected a name, a text that is not empty; got {name!r}")
    if not replace and isinstance(ATTENTION_BACKENDS.get(name), (str, dict)):
        raise ValueError(
            f"name: expected one that sglab does not ship; got {name!r}. Choose another, or pass replace=True"
        )

    def decorator(factory: F) -> F:
        if not callable(factory):
            raise TypeError(f"factory: expected a backend's class or a function of a model runner; got {factory!r}")
        if isinstance(factory, type) and not vars(factory).get("name"):
            factory.name = name  # type: ignore[attr-defined]
        ATTENTION_BACKENDS[name] = factory
        return factory

    return decorator


def backend_factory(name: str, kind: str | None = None) -> Factory:
    """What makes the backend of this name; its module is imported now if it was not.

    Args:
        kind: of attention, for a name that has a class for each; None: one that goes by the runner's.

    Raises:
        UnknownBackendError: it is not registered here.
    """
    entry = ATTENTION_BACKENDS.get(name) if isinstance(name, str) else None
    if entry is None:
        raise UnknownBackendError(_unknown(name))
    if isinstance(entry, str):
        return _load(entry)
    if not isinstance(entry, dict):
        return entry
    if kind is not None:
        return _load(entry[kind])
    by_kind = entry
    return lambda runner: _load(by_kind[runner.model_config.kind])(runner)


def backend_classes(name: str) -> dict[str, Factory]:
    """Kind of attention -> factory; one under "" where a name has the same for all."""
    entry = ATTENTION_BACKENDS[name]
    return (
        {kind: _load(path) for kind, path in entry.items()} if isinstance(entry, dict) else {"": backend_factory(name)}
    )


def capabilities_by_name(kind: str | None = None) -> dict[str, Capabilities]:
    """Every registered backend's capabilities; a factory that declares none is left out.

    Args:
        kind: of attention, of the names that have a backend for each; None lists those as "name (MHA)", "name (MLA)".
    """
    found = {}
    for name in ATTENTION_BACKENDS:
        for own, factory in backend_classes(name).items():
            declared = getattr(factory, "capabilities", None)
            if isinstance(declared, Capabilities) and (not own or kind in (None, own)):
                found[f"{name} ({own.upper()})" if own and kind is None else name] = declared
    return found


def _load(path: str) -> Factory:
    module, _, attribute = path.partition(":")
    return getattr(import_module(module), attribute)


def _unknown(name: object) -> str:
    known = ", ".join(sorted(ATTENTION_BACKENDS))
    if not isinstance(name, str):
        return f"backend: expected the name of one, got {name!r}; choose one of {known}"
    if absent := ABSENT.get(name):
        return (
            f"backend {name!r} is one of SGLang's, but sglab does not have it: it is {absent.what}, and "
            f"{absent.why}. The nearest here is {absent.nearest!r}; choose one of {known}"
        )
    if any(name in names for names in SGLANG_BACKENDS.values()):
        return f"backend {name!r} is one of SGLang's, but sglab does not have it; choose one of {known}"
    near = difflib.get_close_matches(name.lower().replace("-", "_"), ATTENTION_BACKENDS, n=1, cutoff=0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"unknown attention backend {name!r}; known are {known}.{hint}"
