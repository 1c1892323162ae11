"""FlashMLA's FP8 KV cache for sparse MLA: records of 656 bytes, written and read."""

from __future__ import annotations

import torch

from sglab.kernels.contract import Contract
from sglab.kernels.fp8 import e4m3_triton_refuses
from sglab.kernels.k_records.contract import (
    DequantizeArguments,
    QuantizeArguments,
    check_dequantize,
    check_quantize,
)
from sglab.kernels.k_records.layout import RECORD
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator

__all__ = ["RECORD", "dequantize_k_cache", "dequantize_k_cache_paged", "quantize_k_cache", "set_mla_k_records"]


def _operator(name: str, function: str) -> Operator:
    return Operator(
        name,
        Implementation("triton", f"sglab.kernels.k_records.triton:{function}", GPU, e4m3_triton_refuses),
        Implementation("reference", f"sglab.kernels.k_records.reference:{function}", EVERYWHERE),
    )


quantize_operator = _operator("quantize_k_cache", "quantize")
dequantize_operator = _operator("dequantize_k_cache", "dequantize")


def quantize_k_cache(
    cache_k: torch.Tensor, *, implementation: str = "auto", check_values: bool | None = None
) -> torch.Tensor:
    """Latent and RoPE part of keys as 656-byte records. After SGLang's quantize_k_cache and FlashMLA's tests.

    Each 128 of the 512 latent values are divided by their largest magnitude / 448 (by 1 if all are 0) and rounded to
    e4m3; the 64 RoPE values become bfloat16. |x − x̂| ≤ largest · 2⁻⁴.

    Args:
        cache_k: (…, 576) bfloat16, float16 or float32.

    Returns:
        (…, 656) of dtype float8_e4m3fn, whose bytes are 512 e4m3, 4 float32 scales, 64 bfloat16.

    Raises:
        ContractError: an argument does not fit.
    """
    Contract("quantize_k_cache").tensor("k", cache_k.flatten(0, -2), "tokens 576")
    arguments: QuantizeArguments = check_quantize(cache_k.flatten(0, -2), None, None, check_values)
    quantize_operator(arguments, implementation)
    return arguments.records.view(torch.float8_e4m3fn).view(*cache_k.shape[:-1], RECORD)


def set_mla_k_records(
    kv_buffer: torch.Tensor,
    loc: torch.Tensor,
    cache_k: torch.Tensor,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> None:
    """quantize_k_cache straight into a cache: kv_buffer[loc[t]] = record of cache_k[t], in one launch.

    Args:
        kv_buffer: (slots, 656), or (slots, 1, 656), float8_e4m3fn or uint8.
        loc: (tokens,) int32 or int64.
        cache_k: (tokens, 576), or (tokens, 1, 576).

    Raises:
        ContractError: an argument does not fit; nothing was written.
    """
    records, k = (x.squeeze(1) if x.ndim == 3 else x for x in (kv_buffer, cache_k))
    quantize_operator(check_quantize(k, records, loc, check_values), implementation)


def dequantize_k_cache(quant_k_cache: torch.Tensor, *, implementation: str = "auto") -> torch.Tensor:
    """Records (…, 656) as keys (…, 576) bfloat16, each product of value and scale rounded once.

    Raises:
        ContractError: an argument does not fit.
    """
    arguments: DequantizeArguments = check_dequantize(quant_k_cache.flatten(0, -2), None, None)
    dequantize_operator(arguments, implementation)
    return arguments.k.view(*quant_k_cache.shape[:-1], -1)


def dequantize_k_cache_paged(
    quant_k_cache: torch.Tensor,
    page_table_1_flattened: torch.Tensor,
    *,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """dequantize_k_cache of the slots in page_table_1_flattened (tokens,) alone: (tokens, 1, 576).

    Raises:
        ContractError: an argument does not fit.
    """
    arguments = check_dequantize(quant_k_cache.flatten(0, -2), page_table_1_flattened, check_values)
    dequantize_operator(arguments, implementation)
    return arguments.k.unsqueeze(1)
