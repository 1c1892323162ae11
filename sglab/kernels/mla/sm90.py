"""Launching the SM90 MLA decode kernel: a plan, put on a device once, then run for every layer of the step."""

from __future__ import annotations

from typing import Any

import torch

from sglab.gpu import Device, Launch
from sglab.kernels.combine.contract import LseBase
from sglab.kernels.contract import Contract
from sglab.kernels.launch_cache import described, kept
from sglab.kernels.mla.arguments import DecodeArguments, check, outputs
from sglab.kernels.mla.decode import MlaDecode, partial_buffers
from sglab.kernels.mla.table import SM90
from sglab.kernels.mla.work_units import Works, planned
from sglab.planning.mla_sm90 import HEADS_PER_CTA, MlaSm90Plan, mla_sm90_plan

OPERATOR = SM90.name


class MlaSm90(MlaDecode):
    """One plan on one device, with the buffers that its splits need.

    Args:
        plan: for these lengths, these heads and this device's SMs, see mla_sm90_plan; or what a plan says, on the
            device.
        num_heads: 1 to 128, as the plan was made for.
        shared: partial results are where other calls of the same stream put theirs.
    """

    kernel = SM90

    def __init__(self, device: Device, plan: MlaSm90Plan | Works, num_heads: int, *, shared: bool = False) -> None:
        super().__init__(device, num_heads)
        self.works = w = planned(plan, device.torch_device) if isinstance(plan, MlaSm90Plan) else plan
        self.partial_out, self.partial_lse = partial_buffers(w.slots, num_heads, device.torch_device, shared)
        own = described(w.works, w.requests, w.slot_indptr, w.partial_count, self.partial_out, self.partial_lse)
        self.key = (OPERATOR, num_heads, w.batch, w.slots, w.many, own)

    def run(
        self,
        q_nope: torch.Tensor,
        q_pe: torch.Tensor,
        kv_cache: torch.Tensor,
        page_table: torch.Tensor,
        *,
        sm_scale: float,
        out: torch.Tensor | None = None,
        lse: torch.Tensor | None = None,
        lse_base: LseBase = "e",
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attend. Arguments and results as in mla_decode_sm90; lengths are the plan's, so that nothing waits for a GPU.

        Arguments that were checked in an earlier call, here or under another plan, are not checked again.
        """
        out, lse = outputs(OPERATOR, q_nope, out, lse)
        for launch in self.launches(q_nope, q_pe, kv_cache, page_table, sm_scale, out, lse, lse_base):
            self.device.run(launch)
        return out, lse

    def launches(
        self,
        q_nope: torch.Tensor,
        q_pe: torch.Tensor,
        kv_cache: torch.Tensor,
        page_table: torch.Tensor,
        sm_scale: float,
        out: torch.Tensor,
        lse: torch.Tensor,
        lse_base: LseBase = "e",
    ) -> tuple[Launch, ...]:
        """What `run` launches: its arguments checked and packed, or recognised."""
        tensors = (q_nope, q_pe, kv_cache, page_table, out, lse)
        key = (self.key, described(*tensors), float(sm_scale), lse_base)

        def make() -> list[Launch]:
            return self.prepare(check(OPERATOR, q_nope, q_pe, kv_cache, page_table, sm_scale, out, lse, lse_base))

        launches = kept(self.device, key, make, (tensors, self))
        self.require_room(page_table.shape[1] * kv_cache.shape[1])  # of recognised calls too: plans grow in place
        return launches

    def prepare(self, a: DecodeArguments) -> list[Launch]:
        """The launches of one run: attention, and the combine where a request is split."""
        contract, w = Contract(OPERATOR), self.works
        planned = f"of (batch, heads) {(w.batch, self.num_heads)}, as the plan"
        got = tuple(a.q_nope.shape[:2])
        contract.require(got == (w.batch, self.num_heads), "q_nope", planned, got, "Plan again.")
        self.require_room(a.page_table.shape[1] * a.page_size)
        grid = (-(-self.num_heads // HEADS_PER_CTA), w.parts)
        attention = self._attention(a, grid, works=w.works, rounds=len(w.works))
        if not w.slots:
            return [attention]
        return [attention, self._combine(a, w.slot_indptr, w.requests, w.partial_count, w.many)]

    def require_room(self, capacity: int) -> None:
        """Refuse a page table with room for fewer tokens than the plan's longest request has."""
        longest = self.works.longest
        if longest is not None and longest > capacity:
            wide = f"wide enough for {longest} tokens, the plan's longest request"
            remedy = "Widen the page table, or plan for its requests."
            Contract(OPERATOR).require(False, "page_table", wide, f"room for {capacity}", remedy)


def mla_decode_sm90(
    device: Device,
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    kv_cache: torch.Tensor,
    seq_lens: Any,
    page_table: torch.Tensor,
    *,
    sm_scale: float,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    lse_base: LseBase = "e",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Absorbed MLA decode on Hopper: all heads attend to one KV head of 576 dims, whose first 512 are also the value.

    Returns out and lse. Plans again at each call; MlaSm90 keeps a plan. Raises ContractError, LaunchError.

    Args:
        q_nope: (batch, heads, 512), heads ≤ 128, float16 or bfloat16.
        q_pe: (batch, heads, 64), same dtype.
        kv_cache: (pages, page_size, 576), same dtype; page size 16, 32, 64 or 128.
        seq_lens: KV tokens per request, on the host; 0 gives O = 0 and LSE = −inf.
        page_table: (batch, width) int32. Only the pages that hold a request's tokens are read, and rows of the last
            page past the last token may hold anything.
        sm_scale: (qk_nope_head_dim + qk_rope_head_dim) ** −0.5 times YaRN's factor.
        out, lse: outputs (batch, heads, 512) and (batch, heads) float32, allocated if None.
        lse_base: "e" or "2".
    """
    plan = mla_sm90_plan(seq_lens, num_heads=q_nope.shape[1], sm_count=device.sms)
    Contract(OPERATOR).require(
        len(seq_lens) == len(q_nope), "seq_lens", f"{len(q_nope)} lengths", len(seq_lens), "One per request."
    )
    decode = MlaSm90(device, plan, q_nope.shape[1])
    return decode.run(q_nope, q_pe, kv_cache, page_table, sm_scale=sm_scale, out=out, lse=lse, lse_base=lse_base)
