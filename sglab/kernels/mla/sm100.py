"""Launching the SM100 MLA decode kernel and its combine. Nothing here reads a length on the host: the kernel does."""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy
from functools import cached_property

import torch

from sglab.gpu import Device, Launch
from sglab.kernels.combine.contract import MANY_SPLITS, LseBase
from sglab.kernels.contract import Contract, reads_values
from sglab.kernels.launch_cache import described, kept, packed
from sglab.kernels.mla.arguments import outputs
from sglab.kernels.mla.decode import MlaDecode, partial_buffers
from sglab.kernels.mla.sm100_contract import OPERATOR, Scheduler, Sm100Arguments, check, check_sizes
from sglab.kernels.mla.table import SM100
from sglab.planning.mla_sm100 import launch_grid


class MlaSm100(MlaDecode):
    """One launch's shape on one device, with the buffers that its splits need.

    Attributes:
        partial_out, partial_lse, partial_count: buffers of these sizes from elsewhere, such as a workspace; None
            allocates.

    Args:
        batch: requests.
        num_heads: 1 to 128, fewer than 128 are padded.
        max_splits: 1 to 256, the most of any request.
        scheduler: individual, a CTA pair per split; persistent, as many pairs as are resident, each for several splits;
            auto takes the first where all pairs are resident at once.
    """

    kernel = SM100

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
        super().__init__(device, num_heads)
        self.batch, self.max_splits = batch, max_splits
        wanted = None if scheduler == "auto" else scheduler == "persistent"
        self.grid = launch_grid(batch, max_splits, sm_count=device.sms, persistent=wanted)
        place, slots = device.torch_device, batch * max_splits if max_splits > 1 else 0
        if partial_out is None or partial_lse is None:
            partial_out, partial_lse = partial_buffers(slots, num_heads, place)
        self.partial_count = torch.empty(batch, dtype=torch.int32, device=place)
        self._combined: tuple[torch.Tensor, torch.Tensor] | tuple[()] = ()
        """What a combine takes: where the slots of each request begin, and the requests. Made once, here: recipes of
        launches know these addresses."""
        if max_splits > 1:
            requests = torch.arange(batch + 1, dtype=torch.int32, device=place)
            self._combined = (requests * max_splits, requests[:-1])
        self._use_partials(partial_out, partial_lse)

    def _use_partials(self, out: torch.Tensor, lse: torch.Tensor) -> None:
        self.partial_out, self.partial_lse = out, lse
        self.__dict__.pop("key", None)

    @cached_property
    def key(self) -> Hashable:
        """What tells this object's launches from others'."""
        buffers = (self.partial_out, self.partial_lse, self.partial_count, *self._combined)
        return (OPERATOR, self.num_heads, self.max_splits, self.grid, described(*buffers))

    def with_partials(self, out: torch.Tensor, lse: torch.Tensor) -> MlaSm100:
        """The same with partial results elsewhere: out (batch · max_splits, heads, 512), lse (…, heads), float32."""
        other = copy(self)
        other._use_partials(out, lse)
        return other

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
        key = (self.key, described(*tensors), float(sm_scale), lse_base)

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
        buffers = (self.partial_out, self.partial_lse, self.partial_count, *self._combined)
        tensors = (*a.decode.tensors, a.seq_lens, a.num_splits, *buffers)
        key = (self.key, described(*tensors[: -len(buffers)]), float(a.decode.sm_scale), a.decode.lse_base)
        return packed(self.device, key, lambda: self._packed(a), tensors)

    def _packed(self, a: Sm100Arguments) -> list[Launch]:
        attention = self._attention(
            a.decode,
            self.grid,
            seq_lens=a.seq_lens,
            num_splits=a.num_splits,
            max_splits=self.max_splits,
            batch=self.batch,
            partial_count=self.partial_count,
        )
        if not self._combined:
            return [attention]
        many = self.max_splits > MANY_SPLITS
        return [attention, self._combine(a.decode, *self._combined, self.partial_count, many)]


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

    Returns out and lse. Raises ContractError, LaunchError. MlaSm100 keeps the buffers for the next step.

    Args:
        device: of sm_100a, real or emulated.
        q_nope: (batch, heads, 512), heads ≤ 128, float16 or bfloat16.
        q_pe: (batch, heads, 64), same dtype.
        kv_cache: (pages, page_size, 576), same dtype; page size 16, 32, 64 or 128.
        seq_lens: (batch,) int32, KV tokens per request; 0 gives O = 0 and LSE = −inf.
        page_table: (batch, width) int32. Only the pages that hold a request's tokens are read, and rows of the last
            page past the last token may hold anything.
        sm_scale: (qk_nope_head_dim + qk_rope_head_dim) ** −0.5 times YaRN's factor.
        max_splits: into how many parts, of whole 128-token tiles, a request may be cut, at most 256.
        num_splits: (batch,) int32, the same per request, each at most max_splits; see planning.mla_sm100.
        scheduler: see MlaSm100.
        out, lse: outputs (batch, heads, 512) and (batch, heads) float32, allocated if None.
        lse_base: "e" or "2".
        check_values: also check lengths, page numbers and splits; by default only on the CPU, for it waits for a GPU.
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
