"""Wrapper: what a FlashInfer batch wrapper gets from `begin_forward`, and the plan that it would make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from sglab.attention.arithmetic import PagedRows
from sglab.attention.arithmetic.flashinfer_graphs import GraphPlans
from sglab.engine import ForwardMode, GraphBatch
from sglab.planning.flashinfer_decode import DecodePlan, decode_plan
from sglab.planning.flashinfer_mla import MLAPlan, mla_plan
from sglab.planning.flashinfer_prefill import PrefillPlan, prefill_plan


@dataclass(frozen=True)
class Shape:
    """What plans depend on beside the lengths."""

    num_qo_heads: int
    num_kv_heads: int
    head_dim_qk: int
    head_dim_vo: int
    sm_count: int
    mla: bool = False


@dataclass
class Wrapper:
    """One wrapper of a pass. Page size 1: a page is a slot, and the last page always holds one token.

    Attributes:
        qo_indptr: int32 [B + 1].
        kv_indptr: int32 [B + 1]; kv_indices: int32, slots; kv_last_page_len: int32 [B], ones.
        q_lens, kv_lens: the same lengths on the host; None: only the device knows. SGLang's fast_decode_plan plans
            from these, so that nothing is copied from the device.
        max_q: most query rows of a request.
        custom_mask, mask_indptr: of a tree.
        window_left: −1 or the window that the kernel masks by.
        use_tensor_cores: of a decode: planned and run as a prefill of one row each.
        fixed_split_size: tokens per split in deterministic mode; −1: the planner searches.
        disable_split_kv: no splits, as deterministic mode's graphs have it.
        graph_plans: the library's own wrappers, where its kernels are to run in the graph.
    """

    shape: Shape
    qo_indptr: torch.Tensor
    kv_indptr: torch.Tensor
    kv_indices: torch.Tensor
    kv_last_page_len: torch.Tensor
    max_q: int = 1
    q_lens: list[int] | None = None
    kv_lens: list[int] | None = None
    causal: bool = False
    custom_mask: torch.Tensor | None = None
    mask_indptr: torch.Tensor | None = None
    window_left: int = -1
    use_tensor_cores: bool = False
    is_decode: bool = False
    is_cuda_graph_enabled: bool = False
    fixed_split_size: int = -1
    disable_split_kv: bool = False
    graph_plans: GraphPlans | None = None
    _plan: DecodePlan | PrefillPlan | MLAPlan | None = field(default=None, repr=False)

    def rows(self, causal: bool | None = None) -> PagedRows:
        """What the kernel attends over; `causal` overrides the wrapper's own."""
        causal = self.causal if causal is None else causal
        return PagedRows(
            self.qo_indptr,
            self.kv_indptr,
            self.kv_indices,
            self.max_q,
            causal,
            self.window_left,
            self.custom_mask,
            self.mask_indptr,
            graph_plans=self.graph_plans,
        )

    def plan(self) -> DecodePlan | PrefillPlan | MLAPlan:
        """FlashInfer's plan: made when first asked for, from the host's lengths, or the device's where it has none."""
        if self._plan is None:
            self._plan = self._new_plan()
        return self._plan

    def _new_plan(self) -> DecodePlan | PrefillPlan | MLAPlan:
        shape, qo, kv = (
            self.shape,
            self._indptr(self.q_lens, self.qo_indptr),
            self._indptr(self.kv_lens, self.kv_indptr),
        )
        if shape.mla:
            lens = np.diff(kv)
            return mla_plan(qo, kv, lens, num_heads=shape.num_qo_heads, sm_count=shape.sm_count, causal=self.causal)
        if self.is_decode and not self.use_tensor_cores:
            return decode_plan(
                kv,
                num_qo_heads=shape.num_qo_heads,
                num_kv_heads=shape.num_kv_heads,
                page_size=1,
                sm_count=shape.sm_count,
                head_dim=shape.head_dim_qk,
                enable_cuda_graph=self.is_cuda_graph_enabled,
            )
        return prefill_plan(
            qo,
            kv,
            num_qo_heads=shape.num_qo_heads,
            num_kv_heads=shape.num_kv_heads,
            page_size=1,
            sm_count=shape.sm_count,
            head_dim_qk=shape.head_dim_qk,
            head_dim_vo=shape.head_dim_vo,
            enable_cuda_graph=self.is_cuda_graph_enabled,
            window_left=self.window_left,
            fixed_split_size=self.fixed_split_size,
            disable_split_kv=self.disable_split_kv,
        )

    @staticmethod
    def _indptr(lens: list[int] | None, indptr: torch.Tensor) -> np.ndarray:
        return indptr.cpu().numpy() if lens is None else np.concatenate(([0], np.cumsum(lens)))


class CapturedPlans:
    """FlashInfer's own wrappers of a backend's graphs: by pass, batch size and which of its arrays."""

    def __init__(self) -> None:
        self._plans: dict[tuple[ForwardMode, int, int], GraphPlans] = {}

    def plan(self, batch: GraphBatch, wrappers: Sequence[Wrapper]) -> None:
        """Plan for what the buffers hold now: before a capture, and before a replay."""
        for number, made in enumerate(wrappers):
            made.graph_plans = self._plans.setdefault((batch.forward_mode, batch.bs, number), GraphPlans())
            made.graph_plans.plan(made.rows(), made.kv_lens)
