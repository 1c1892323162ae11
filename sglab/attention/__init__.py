"""Attention backends under SGLang's names: the interface, the registry and the selection.

Importing this package registers the backends that run here.
"""

from sglab.attention import cutlass_mla_backend, flashmla_backend, flex_attention, torch_native, triton_backend
from sglab.attention.base import AttentionBackend
from sglab.attention.info import AttendInfo, Run
from sglab.attention.registry import (
    ATTENTION_BACKENDS,
    SGLANG_BACKENDS,
    UnknownBackendError,
    create_attention_backend,
    register_attention_backend,
)
from sglab.attention.selection import HARDWARE, Hardware, Model, Selection, Settings, select_attention_backend

__all__ = [
    "ATTENTION_BACKENDS",
    "HARDWARE",
    "SGLANG_BACKENDS",
    "AttendInfo",
    "AttentionBackend",
    "Hardware",
    "Model",
    "Run",
    "Selection",
    "Settings",
    "UnknownBackendError",
    "create_attention_backend",
    "cutlass_mla_backend",
    "flashmla_backend",
    "flex_attention",
    "register_attention_backend",
    "select_attention_backend",
    "torch_native",
    "triton_backend",
]
