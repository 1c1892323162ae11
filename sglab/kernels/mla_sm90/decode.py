"""Launching the SM90 MLA decode kernel: a plan, put on a device once, then run for every layer of the step."""

from __future__ import annotations

from typing import Any

import torch

from sglab.gpu import Device, Launch
from sglab.kernels import ptx
from sglab.kernels.combine import cuda as combine
from sglab.kernels.combine.contract import CombineArguments, LseBase
from sglab.kernels.contract import Contract
from sglab.kernels.launches import described, kept
from sglab.kernels.mla.params import Sm90Params
from sglab.kernels.mla_decode import DTYPES, LATENT_DIM, DecodeArguments, check, outputs
from sglab.kernels.mla_sm90.works import Works, planned
from sglab.planning.mla_sm90 import HEADS_PER_CTA, MlaSm90Plan, mla_sm90_plan

OPERATOR = "mla_decode_sm90"
THREADS = 384
SHARED_BYTES = 224_208


class MlaSm90:
    """One plan on one device, with the buffers that its splits need.

    plan: for these lengths, these heads and this device's SMs, see mla_sm90_plan; or what a plan says, on the device
    num_heads: 1 to 128, as the plan was made for
    """

    def __init__(self, device: Device, plan: MlaSm90Plan | Works, num_heads: int) -> None:
        self.device, self.num_heads, place = device, num_heads, device.torch_device
        self.works = planned(plan, place) if isinstance(plan, MlaSm90Plan) else plan
        slots = self.works.slots
        rows = slots * num_heads
        out, lse = torch.empty(rows * (LATENT_DIM + 1), dtype=torch.float32, device=place).split(
            [rows * LATENT_DIM, rows]
        )
        self.partial_out, self.partial_lse = out.view(slots, num_heads, LATENT_DIM), lse.view(slots, num_heads)
        w = self.works
        own = described(w.works, w.requests, w.slot_indptr, w.partial_count, self.partial_out, self.partial_lse)
        self._key = (OPERATOR, num_heads, w.batch, slots, w.many, own)

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
        key = (self._key, described(*tensors), float(sm_scale), lse_base)

        def make() -> list[Launch]:
            return self.prepare(check(OPERATOR, q_nope, q_pe, kv_cache, page_table, sm_scale, out, lse, lse_base))

        launches = kept(self.device, key, make, (tensors, self))
        self._require_room(page_table.shape[1] * kv_cache.shape[1])  # of recognised calls too: plans grow in place
        return launches

    def prepare(self, a: DecodeArguments) -> list[Launch]:
        """The launches of one run: attention, and the combine where a request is split."""
        contract, w = Contract(OPERATOR), self.works
        planned = f"of (batch, heads) {(w.batch, self.num_heads)}, as the plan"
        got = tuple(a.q_nope.shape[:2])
        contract.require(got == (w.batch, self.num_heads), "q_nope", planned, got, "Plan again.")
        self._require_room(a.page_table.shape[1] * a.page_size)
        return [self._attention(a), *([self._combine(a)] if self.works.slots else [])]

    def _require_room(self, capacity: int) -> None:
        longest = self.works.longest
        if longest is not None and longest > capacity:
            wide = f"wide enough for {longest} tokens, the plan's longest request"
            remedy = "Widen the page table, or plan for its requests."
            Contract(OPERATOR).require(False, "page_table", wide, f"room for {capacity}", remedy)

    def _attention(self, a: DecodeArguments) -> Launch:
        return ptx.module(OPERATOR)[f"{OPERATOR}_{DTYPES[a.q_nope.dtype]}"].prepare(
            self.device,
            grid=(-(-self.num_heads // HEADS_PER_CTA), self.works.parts),
            block=THREADS,
            smem=SHARED_BYTES,
            args=[
                Sm90Params(
                    **a.inputs(),
                    **a.results(),
                    works=self.works.works,
                    rounds=len(self.works.works),
                    partial_out=self.partial_out,
                    partial_lse=self.partial_lse,
                )
            ],
            overlaps=True,
        )

    def _combine(self, a: DecodeArguments) -> Launch:
        w = self.works
        partials = (self.partial_out, self.partial_lse, w.slot_indptr, w.requests)
        arguments = CombineArguments(*partials, a.out, a.lse, w.partial_count, a.lse_base, w.many)
        return combine.prepare(self.device, arguments)


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

    q_nope: (batch, heads, 512), heads ≤ 128, float16 or bfloat16; q_pe: (batch, heads, 64), same dtype
    kv_cache: (pages, page_size, 576), same dtype; page size 16, 32, 64 or 128
    seq_lens: KV tokens per request, on the host; 0 gives O = 0 and LSE = −inf
    page_table: (batch, width) int32. Only the pages that hold a request's tokens are read, and rows of the last page
        behind the last token may hold anything
    sm_scale: (qk_nope_head_dim + qk_rope_head_dim) ** −0.5 times YaRN's factor
    out, lse: outputs (batch, heads, 512) and (batch, heads) float32, allocated if None
    lse_base: "e" or "2"
    Returns out and lse. Plans anew at each call; MlaSm90 keeps a plan. Raises ContractError, LaunchError.
    """
    plan = mla_sm90_plan(seq_lens, num_heads=q_nope.shape[1], sm_count=device.sms)
    Contract(OPERATOR).require(
        len(seq_lens) == len(q_nope), "seq_lens", f"{len(q_nope)} lengths", len(seq_lens), "One per request."
    )
    decode = MlaSm90(device, plan, q_nope.shape[1])
    return decode.run(q_nope, q_pe, kv_cache, page_table, sm_scale=sm_scale, out=out, lse=lse, lse_base=lse_base)
