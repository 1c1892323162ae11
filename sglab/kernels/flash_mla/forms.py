"""Which arguments belong to which of flash_mla_with_kvcache's forms: dense, dense in 8 bits, sparse."""

from __future__ import annotations

import torch

from sglab.kernels.contract import FLOATS, Contract


def check_cache_form(
    k_cache: torch.Tensor, is_fp8: bool, descale_q: torch.Tensor | None, descale_k: torch.Tensor | None
) -> None:
    """The sparse form: records where the cache is 8-bit, whose scales are their own."""
    contract = Contract("flash_mla_with_kvcache")
    eight_bit = isinstance(k_cache, torch.Tensor) and k_cache.dtype not in FLOATS
    remedy = "Records come from quantize_k_cache, other caches are read as they are."
    contract.require(is_fp8 == eight_bit, "is_fp8_kvcache", str(eight_bit), is_fp8, remedy)
    for name, scale in (("descale_q", descale_q), ("descale_k", descale_k)):
        contract.require(scale is None, name, "None with indices", "a tensor", "Records hold their own scales.")


def check_dense_form(
    k_cache: torch.Tensor, is_fp8: bool, attn_sink: torch.Tensor | None, topk_length: torch.Tensor | None
) -> None:
    eight_bit = isinstance(k_cache, torch.Tensor) and k_cache.dtype == torch.float8_e4m3fn
    if attn_sink is None and topk_length is None and is_fp8 == eight_bit:
        return  # most calls: what could be said of a bad one is not written
    contract = Contract("flash_mla_with_kvcache")
    for name, given in (("attn_sink", attn_sink), ("topk_length", topk_length)):
        contract.require(given is None, name, "None without indices", "a tensor", "FlashMLA has it in the sparse form.")
    remedy = "It says how the cache's bytes are read."
    contract.require(is_fp8 == eight_bit, "is_fp8_kvcache", str(eight_bit), is_fp8, remedy)
