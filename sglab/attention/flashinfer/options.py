"""What FlashInfer's backends decide once: tensor cores, workspace bytes, splits of deterministic mode.

Source: SGLang 0.5.9 `flashinfer_backend.py`, FlashInferAttnBackend.__init__ and should_use_tensor_core; `environ.py`.
"""

from __future__ import annotations

import os

import torch

TENSOR_CORE_VARIABLE = "SGLANG_FLASHINFER_USE_TENSOR_CORE"
WORKSPACE_BYTES = 384 << 20
LARGE_WORKSPACE_BYTES = 512 << 20
DETERMINISTIC_WORKSPACE_BYTES = 2048 << 20
LARGE_WORKSPACE_MODELS = (
    "Qwen2ForCausalLM",
    "Qwen3ForCausalLM",
    "MiMoForCausalLM",
    "Qwen3VLForConditionalGeneration",
    "Qwen3VLMoeForConditionalGeneration",
)
DETERMINISTIC_SPLITS = (2048, 4096)
"""Tokens per split of a decode and of a prefill."""


def should_use_tensor_core(kv_dtype: torch.dtype, num_heads: int, num_kv_heads: int) -> bool:
    """Whether a decode runs as a prefill of one row: with FP8 keys, or at least 4 query heads per KV head in 16 bit.

    The heads of a group become rows of one product; fewer than 4 leave most of a tensor core's tile empty. The
    environment variable SGLANG_FLASHINFER_USE_TENSOR_CORE decides before anything else.
    """
    asked = os.environ.get(TENSOR_CORE_VARIABLE)
    if asked is not None:
        return asked.lower() == "true"
    if kv_dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        return True
    return kv_dtype in (torch.float16, torch.bfloat16) and num_heads // num_kv_heads >= 4


def workspace_bytes(architecture: str = "", deterministic: bool = False) -> int:
    """Bytes of the workspace that all wrappers share; fixed splits leave far more partial results."""
    if deterministic:
        return DETERMINISTIC_WORKSPACE_BYTES
    return LARGE_WORKSPACE_BYTES if architecture in LARGE_WORKSPACE_MODELS else WORKSPACE_BYTES
