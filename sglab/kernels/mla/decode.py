"""What our MLA decodes on Hopper and Blackwell have in common: buffers of the splits, attention, and the combine."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, ClassVar

import torch

from sglab.gpu import Device, Launch
from sglab.kernels.combine import cuda as combine
from sglab.kernels.combine.contract import CombineArguments
from sglab.kernels.mla.arguments import MlaDecodeArguments
from sglab.kernels.mla.table import MlaKernel
from sglab.kernels.streams import capturing, stream
from sglab.planning.mla_dims import LATENT_DIM


class MlaDecode:
    """One launch's shape on one device, with the buffers that its splits need. See MlaSm90 and MlaSm100."""

    kernel: ClassVar[MlaKernel]

    def __init__(self, device: Device, num_heads: int) -> None:
        self.device, self.num_heads = device, num_heads
        self.partial_out: torch.Tensor
        self.partial_lse: torch.Tensor

    def _attention(self, a: MlaDecodeArguments, grid: tuple[int, ...], **own: Any) -> Launch:
        """The attention kernel's launch. own: the fields of its parameters that are not every kernel's"""
        partials = {"partial_out": self.partial_out, "partial_lse": self.partial_lse}
        params = self.kernel.params(**a.inputs(), **a.results(), **partials, **own)
        return self.kernel.entry(a.q_nope.dtype).prepare(
            self.device,
            grid=grid,
            block=self.kernel.threads,
            smem=self.kernel.shared_bytes,
            args=[params],
            overlaps=True,
        )

    def _combine(
        self,
        a: MlaDecodeArguments,
        slot_indptr: torch.Tensor,
        requests: torch.Tensor,
        partial_count: torch.Tensor | None,
        many: bool,
    ) -> Launch:
        """The combine of its splits; see CombineArguments."""
        partials = (self.partial_out, self.partial_lse, slot_indptr, requests)
        return combine.prepare(self.device, CombineArguments(*partials, a.out, a.lse, partial_count, a.lse_base, many))


def scratch(place: torch.device, count: int, dtype: torch.dtype, purpose: str) -> torch.Tensor:
    """Memory that a call fills and reads itself. On a GPU the calls of a stream, which run one after the other, share
    it; a CUDA graph that is captured, and launches on the emulator, which may be stepped later, have their own."""
    if place.type != "cuda" or capturing(place):
        return torch.empty(count, dtype=dtype, device=place)
    return _shared(place, stream(place), count, dtype, purpose)


@lru_cache(maxsize=32)
def _shared(place: torch.device, stream: int, count: int, dtype: torch.dtype, purpose: str) -> torch.Tensor:
    return torch.empty(count, dtype=dtype, device=place)


@lru_cache(maxsize=32)
def _no_partials(num_heads: int, place: str) -> tuple[torch.Tensor, torch.Tensor]:
    out = torch.empty(0, num_heads, LATENT_DIM, dtype=torch.float32, device=place)
    return out, torch.empty(0, num_heads, dtype=torch.float32, device=place)


def partial_buffers(slots: int, num_heads: int, place: str, shared: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Room for the partial results of so many splits: O (slots, heads, 512) and LSE (slots, heads), float32.

    Args:
        shared: see `scratch`.
    """
    if slots == 0:
        return _no_partials(num_heads, place)
    if not shared:
        out = torch.empty(slots, num_heads, LATENT_DIM, dtype=torch.float32, device=place)
        return out, torch.empty(slots, num_heads, dtype=torch.float32, device=place)
    rows = slots * num_heads
    both = scratch(torch.device(place), rows * (LATENT_DIM + 1), torch.float32, "partial results")
    out, lse = both.split([rows * LATENT_DIM, rows])
    return out.view(slots, num_heads, LATENT_DIM), lse.view(slots, num_heads)
