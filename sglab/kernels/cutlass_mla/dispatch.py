"""Which of its SM100 kernels SGLang's cutlass_mla_decode launches: element type × page size × number of splits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from sglab.kernels.contract import Contract
from sglab.planning.set_split_kv import TILE_S

SHARED_STORAGE = {
    (2, "TMA"): 210_944,
    (2, "cp.async"): 217_088,
    (1, "TMA"): 174_080,
    (1, "cp.async"): 186_368,
}
"""Bytes of shared memory per CTA, by element size and loader, as nvcc 13.0 lays the kernel's SharedStorage out."""


@dataclass(frozen=True)
class KernelVariant:
    """One instantiation of the kernel.

    Attributes:
        dtype, out_dtype: of queries and cache, and of O.
        loader: TMA takes whole pages of 128 tokens; cp.async gathers smaller ones.
        scheduler: persistent CTAs walk over all work; individual ones do one split each.
        shared_storage: bytes of shared memory per CTA.
    """

    dtype: torch.dtype
    out_dtype: torch.dtype
    loader: Literal["TMA", "cp.async"]
    scheduler: Literal["persistent", "individual"]

    @property
    def shared_storage(self) -> int:
        return SHARED_STORAGE[self.dtype.itemsize, self.loader]


def dispatch(dtype: torch.dtype, page_size: int, num_kv_splits: int = 1) -> KernelVariant:
    """The variant for a call. float8_e4m3fn has one in C++, although the Python wrapper accepts only 16-bit types.

    The persistent scheduler is used where the splits are not set by hand (num_kv_splits ≤ 1): with many splits it hung.
    Raises ContractError for an element type or a page size without a kernel.
    """
    contract = Contract("cutlass_mla_decode")
    check_page_size(contract, page_size)
    out = {torch.float16: torch.float16, torch.bfloat16: torch.bfloat16, torch.float8_e4m3fn: torch.bfloat16}
    contract.require(
        dtype in out,
        "q_nope",
        "float16, bfloat16 or float8_e4m3fn",
        str(dtype).removeprefix("torch."),
        "Convert queries and cache.",
    )
    loader: Literal["TMA", "cp.async"] = "TMA" if page_size == TILE_S else "cp.async"
    return KernelVariant(dtype, out[dtype], loader, "persistent" if num_kv_splits <= 1 else "individual")


def check_page_size(contract: Contract, page_size: int) -> None:
    contract.require(
        1 <= page_size <= TILE_S and page_size & (page_size - 1) == 0,
        "kv_c_and_k_pe_cache",
        f"of pages of a power of two up to {TILE_S} tokens ({TILE_S} loads by TMA, less by cp.async)",
        f"page size {page_size}",
        "Choose such a page size for the pool.",
    )
