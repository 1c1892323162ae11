"""Attention backends: the interface, the registry and the selection.

Nothing is imported before it is used: a name below loads its module, and the registry a backend's, at first use.
"""

from importlib import import_module
from typing import Any

_MODULES = {
    "ATTENTION_BACKENDS": "registry",
    "AttendInfo": "info",
    "AttentionBackend": "base",
    "AttentionInputs": "inputs",
    "BackendSelection": "selection",
    "Capabilities": "capabilities",
    "Demand": "capabilities",
    "HARDWARE": "selection",
    "Hardware": "selection",
    "Model": "selection",
    "PagedRows": "arithmetic",
    "Run": "info",
    "SGLANG_BACKENDS": "upstream",
    "Settings": "selection",
    "Span": "rows",
    "UnknownBackendError": "registry",
    "UnsupportedError": "capabilities",
    "attend_rows": "arithmetic",
    "capabilities_by_name": "registry",
    "create_attention_backend": "create",
    "register_attention_backend": "registry",
    "save_and_get_kv": "rows",
    "scoring_of": "arithmetic",
    "select_attention_backend": "selection",
    "spans": "rows",
}
"""Public name -> the module here that has it."""

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
