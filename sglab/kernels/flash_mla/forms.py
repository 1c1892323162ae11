"""Which arguments belong to which of flash_mla_with_kvcache's forms: dense, dense in 8 bits, sparse."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from sglab.kernels.contract import FLOATS, Contract
from sglab.kernels.sparse_mla.contract import Keys


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


def extra_keys(
    k_cache: torch.Tensor, extra: torch.Tensor | None, indices: torch.Tensor | None, lengths: torch.Tensor | None
) -> Keys | None:
    """The second cache of the sparse form: all of its arguments or none, rows as the first cache has them."""
    contract = Contract("flash_mla_with_kvcache")
    if extra is None or indices is None:
        given = {"extra_k_cache": extra, "extra_indices_in_kvcache": indices, "extra_topk_length": lengths}
        remedy = "Pass extra_k_cache with extra_indices_in_kvcache, or neither."
        for name, value in given.items():
            contract.require(value is None, name, "None without the others", "a tensor", remedy)
        return None
    remedy = "Store both alike: records in both, or neither."
    contract.require(extra.dtype == k_cache.dtype, "extra_k_cache", f"{k_cache.dtype}", extra.dtype, remedy)
    return Keys(extra, indices, lengths)


def check_dense_form(k_cache: torch.Tensor, is_fp8: bool, sparse_only: Mapping[str, torch.Tensor | None]) -> None:
    eight_bit = isinstance(k_cache, torch.Tensor) and k_cache.dtype == torch.float8_e4m3fn
    if is_fp8 == eight_bit and all(given is None for given in sparse_only.values()):
        return  # most calls: what could be said of a bad one is not written
    contract = Contract("flash_mla_with_kvcache")
    for name, given in sparse_only.items():
        contract.require(given is None, name, "None without indices", "a tensor", "FlashMLA has it in the sparse form.")
    remedy = "It says how the cache's bytes are read."
    contract.require(is_fp8 == eight_bit, "is_fp8_kvcache", str(eight_bit), is_fp8, remedy)
