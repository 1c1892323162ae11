"""Attention backends under SGLang's names: the interface, the registry, the selection, and `attend`.

Importing this package registers the backends that run here.
"""

from sglab.attention import cutlass_mla_backend, flashmla_backend, flex_attention, torch_native, triton_backend
from sglab.attention.base import AttentionBackend
from sglab.attention.float64 import Reference, max_error, reference
from sglab.attention.info import AttendInfo, Run
from sglab.attention.registry import (
    ATTENTION_BACKENDS,
    SGLANG_BACKENDS,
    UnknownBackendError,
    create_attention_backend,
    register_attention_backend,
)
from sglab.attention.run import attend
from sglab.attention.selection import HARDWARE, Hardware, Model, Selection, Settings, select_attention_backend

__all__ = [
    "ATTENTION_BACKENDS",
    "HARDWARE",
    "SGLANG_BACKENDS",
    "AttendInfo",
    "AttentionBackend",
    "Hardware",
    "Model",
    "Reference",
    "Run",
    "Selection",
    "Settings",
    "UnknownBackendError",
    "attend",
    "create_attention_backend",
    "cutlass_mla_backend",
    "flashmla_backend",
    "flex_attention",
    "max_error",
    "reference",
    "register_attention_backend",
    "select_attention_backend",
    "torch_native",
    "triton_backend",
]
