"""Launching the SM100 MLA decode kernel and its combine. Nothing here reads a length on the host: the kernel does."""

from __future__ import annotations

import torch

from sglab.gpu import Device, Launch
from sglab.kernels import ptx
from sglab.kernels.combine import cuda as combine
from sglab.kernels.combine.contract import MANY_SPLITS, CombineArguments, LseBase
from sglab.kernels.contract import Contract, reads_values
from sglab.kernels.launches import described, kept
from sglab.kernels.mla.params import Sm100Params
from sglab.kernels.mla_decode import DTYPES, LATENT_DIM, DecodeArguments, outputs
from sglab.kernels.mla_sm100.contract import OPERATOR, Scheduler, Sm100Arguments, check, check_sizes
from sglab.planning.mla_sm100 import launch_grid

THREADS = 352
SHARED_BYTES = 225_280


class MlaSm100:
    """One launch's shape on one device, with the buffers that its splits need.

    batch: requests; num_heads: 1 to 128, fewer than 128 are padded; max_splits: 1 to 256, the most of any request
    scheduler: individual, a CTA pair per split; persistent, as many pairs as are resident, each for several splits;
        auto takes the first where all pairs are resident at once
    partial_out, partial_lse, partial_count: buffers of these sizes from elsewhere, such as a workspace; None allocates
    """

    def __init__(
        self,
        device: Device,
        batch: int,
        num_heads: int,
        max_splits: int = 1,
        scheduler: Scheduler = "auto",
        partial_out: torch.Tensor | None = None,
        partial_lse: torch.Tensor | None = None,
    ) -> None:
        check_sizes(num_heads, max_splits, scheduler)
        self.device, self.batch, self.num_heads, self.max_splits = device, batch, num_heads, max_splits
        wanted = None if scheduler == "auto" else scheduler == "persistent"
        self.grid = launch_grid(batch, max_splits, sm_count=device.sms, persistent=wanted)
        place, slots = device.torch_device, batch * max_splits if max_splits > 1 else 0
        if partial_out is None or partial_lse is None:
            partial_out = torch.empty(slots, num_heads, LATENT_DIM, dtype=torch.float32, device=place)
            partial_lse = torch.empty(slots, num_heads, dtype=torch.float32, device=place)
        self.partial_out, self.partial_lse = partial_out, partial_lse
        self.partial_count = torch.empty(batch, dtype=torch.int32, device=place)
        self._requests = torch.arange(batch, dtype=torch.int32, device=place)
        self._slot_indptr = torch.arange(batch + 1, dtype=torch.int32, device=place) * max_splits
        buffers = (self.partial_out, self.partial_lse, self.partial_count, self._requests, self._slot_indptr)
        self._key = (OPERATOR, num_heads, max_splits, self.grid, described(*buffers))

    def run(
        self,
        q_nope: torch.Tensor,
        q_pe: torch.Tensor,
        kv_cache: torch.Tensor,
        seq_lens: torch.Tensor,
        page_table: torch.Tensor,
        *,
        sm_scale: float,
        num_splits: torch.Tensor | None = None,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        lse_base: LseBase = "e",
        check_values: bool | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attend. Arguments and results as in mla_decode_sm100.

        Arguments that were checked in an earlier call are not checked again, but their contents are.
        """
        out, lse = outputs(OPERATOR, q_nope, out, lse)
        decode = (q_nope, q_pe, kv_cache, page_table, sm_scale, out, lse, lse_base)
        for launch in self.launches(seq_lens, num_splits, *decode, check_values=check_values):
            self.device.run(launch)
        return out, lse

    def launches(
        self,
        seq_lens: torch.Tensor,
        num_splits: torch.Tensor | None,
        q_nope: torch.Tensor,
        q_pe: torch.Tensor,
        kv_cache: torch.Tensor,
        page_table: torch.Tensor,
        sm_scale: float,
        out: torch.Tensor,
        lse: torch.Tensor,
        lse_base: LseBase = "e",
        *,
        check_values: bool | None = None,
    ) -> tuple[Launch, ...]:
        """What `run` launches: its arguments checked and packed, or recognised."""
        tensors = (q_nope, q_pe, kv_cache, page_table, out, lse, seq_lens, num_splits)
        key = (self._key, described(*tensors), float(sm_scale), lse_base)

        def make() -> list[Launch]:
            decode = (q_nope, q_pe, kv_cache, page_table, sm_scale, out, lse, lse_base)
            return self.prepare(check(seq_lens, num_splits, self.max_splits, check_values, *decode))

        if isinstance(seq_lens, torch.Tensor) and reads_values(check_values, seq_lens.device):
            return tuple(make())
        return kept(self.device, key, make, (tensors, self))

    def prepare(self, a: Sm100Arguments) -> list[Launch]:
        """The launches of one run: attention, and the combine where requests may be split. None for an empty batch."""
        expected = (self.batch, self.num_heads)
        got = tuple(a.decode.q_nope.shape[:2])
        Contract(OPERATOR).require(got == expected, "q_nope", f"of (batch, heads) {expected}", got, "Make another.")
        if self.batch == 0:
            return []
        return [self._attention(a), *([self._combine(a.decode)] if self.max_splits > 1 else [])]

    def _attention(self, a: Sm100Arguments) -> Launch:
        d = a.decode
        return ptx.module(OPERATOR)[f"{OPERATOR}_{DTYPES[d.q_nope.dtype]}"].prepare(
            self.device,
            grid=self.grid,
            block=THREADS,
            smem=SHARED_BYTES,
            args=[
                Sm100Params(
                    **d.inputs(),
                    **d.results(),
                    seq_lens=a.seq_lens,
                    num_splits=a.num_splits,
                    max_splits=self.max_splits,
                    batch=self.batch,
                    partial_out=self.partial_out,
                    partial_lse=self.partial_lse,
                    partial_count=self.partial_count,
                )
            ],
            overlaps=True,
        )

    def _combine(self, d: DecodeArguments) -> Launch:
        many = self.max_splits > MANY_SPLITS
        partials = (self.partial_out, self.partial_lse, self._slot_indptr, self._requests)
        arguments = CombineArguments(*partials, d.out, d.lse, self.partial_count, d.lse_base, many)
        return combine.prepare(self.device, arguments)


def mla_decode_sm100(
    device: Device,
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    kv_cache: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    *,
    sm_scale: float,
    max_splits: int = 1,
    num_splits: torch.Tensor | None = None,
    scheduler: Scheduler = "auto",
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    lse_base: LseBase = "e",
    check_values: bool | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Absorbed MLA decode on Blackwell: all heads attend to one KV head of 576 dims, its first 512 are the value too.

    device: of sm_100a, real or emulated
    q_nope: (batch, heads, 512), heads ≤ 128, float16 or bfloat16; q_pe: (batch, heads, 64), same dtype
    kv_cache: (pages, page_size, 576), same dtype; page size 16, 32, 64 or 128
    seq_lens: (batch,) int32, KV tokens per request; 0 gives O = 0 and LSE = −inf
    page_table: (batch, width) int32. Only the pages that hold a request's tokens are read, and rows of the last page
        behind the last token may hold anything
    sm_scale: (qk_nope_head_dim + qk_rope_head_dim) ** −0.5 times YaRN's factor
    max_splits: into how many parts, of whole 128-token tiles, a request may be cut, at most 256
    num_splits: (batch,) int32, the same per request, each at most max_splits; see planning.mla_sm100
    scheduler: see MlaSm100
    out, lse: outputs (batch, heads, 512) and (batch, heads) float32, allocated if None
    lse_base: "e" or "2"
    check_values: also check lengths, page numbers and splits; by default only on the CPU, for it waits for a GPU
    Returns out and lse. Raises ContractError, LaunchError. MlaSm100 keeps the buffers for the next step.
    """
    batch, num_heads = q_nope.shape[:2]
    decode = MlaSm100(device, batch, num_heads, max_splits, scheduler)
    return decode.run(
        q_nope,
        q_pe,
        kv_cache,
        seq_lens,
        page_table,
        sm_scale=sm_scale,
        num_splits=num_splits,
        out=out,
        lse=lse,
        lse_base=lse_base,
        check_values=check_values,
    )
