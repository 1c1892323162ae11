"""All planners under one signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from sglab.planning.plan import Plan
from sglab.planning.views import (
    cutlass,
    flash_attention_3,
    flash_mla,
    flashinfer,
    flashinfer_mla,
    sglab,
    sglang_triton,
)
from sglab.planning.workload import Workload


@dataclass(frozen=True)
class Planner:
    """A planner by name: call it with a batch's lengths and shapes to get a `Plan`."""

    name: str
    title: str
    attention: str
    """"mla": one latent KV head; "any": MHA, GQA, MQA and absorbed MLA."""
    page_size: int
    """Page size where the caller names none."""
    ctas_per_sm: int
    """CTAs that share an SM where the caller names none."""
    function: Callable[..., Plan]

    def __call__(
        self,
        seq_lens: ArrayLike,
        *,
        num_heads: int,
        num_kv_heads: int,
        sm_count: int,
        page_size: int | None = None,
        head_dim_qk: int | None = None,
        head_dim_vo: int | None = None,
        ctas_per_sm: int | None = None,
        enable_cuda_graph: bool = False,
        **options: Any,
    ) -> Plan:
        """Plan one decode step: `seq_lens` KV tokens and one query token per request.

        Head dims default to 576 and 512 with one KV head and 128 heads (MLA), otherwise to 128 each. `ctas_per_sm`
        is what the driver's occupancy query would answer. Options are the planner's own, such as max_kv_splits.
        """
        known = list(inspect.signature(self.function).parameters)[1:]
        for name in options:
            if name not in known:
                remedy = f"its own options are {', '.join(known)}" if known else "it has no options of its own"
                raise TypeError(f"{name}: expected an option of {self.name}, got an unknown one; {remedy}")
        latent = self.attention == "mla" or (num_kv_heads == 1 and head_dim_qk is None and head_dim_vo is None)
        workload = Workload.checked(
            seq_lens,
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            head_dim_qk=(576 if latent else 128) if head_dim_qk is None else head_dim_qk,
            head_dim_vo=(512 if latent else 128) if head_dim_vo is None else head_dim_vo,
            page_size=self.page_size if page_size is None else page_size,
            sm_count=sm_count,
            ctas_per_sm=self.ctas_per_sm if ctas_per_sm is None else ctas_per_sm,
            enable_cuda_graph=enable_cuda_graph,
        )
        return self.function(workload, **options)


_ALL = (
    Planner("cutlass_mla_individual", "CUTLASS MLA, individual", "mla", 128, 1, cutlass.individual),
    Planner("cutlass_mla_persistent", "CUTLASS MLA, persistent (4.2 on)", "mla", 128, 1, cutlass.persistent),
    Planner(
        "cutlass_mla_persistent_4_1", "CUTLASS MLA, persistent (to 4.1)", "mla", 128, 1, cutlass.persistent_before_4_2
    ),
    Planner("flashinfer_cutlass_mla", "FlashInfer's CUTLASS MLA", "mla", 128, 1, cutlass.flashinfer),
    Planner("sglang_cutlass_mla", "SGLang's CUTLASS MLA", "mla", 128, 1, cutlass.sglang),
    Planner("sglab_mla_sm100", "sglab's MLA for Blackwell", "mla", 128, 1, sglab.mla_sm100),
    Planner("sglab_mla_sm90", "sglab's MLA for Hopper", "mla", 64, 1, sglab.mla_sm90),
    Planner("flashinfer_mla", "FlashInfer MLA (fa2, fa3)", "mla", 64, 1, flashinfer_mla.mla),
    Planner("flash_mla", "FlashMLA", "mla", 64, 1, flash_mla.flash_mla),
    Planner("flash_attention_3", "FlashAttention-3", "any", 128, 1, flash_attention_3.fa3),
    Planner("sglang_triton", "SGLang Triton", "any", 1, 1, sglang_triton.dynamic),
    Planner("sglang_triton_static", "SGLang Triton, static", "any", 1, 1, sglang_triton.static),
    Planner("sglang_triton_deterministic", "SGLang Triton, deterministic", "any", 1, 1, sglang_triton.deterministic),
    Planner("flashinfer_decode", "FlashInfer decode", "any", 16, 2, flashinfer.decode),
    Planner("flashinfer_prefill", "FlashInfer FA2 (tensor-core decode)", "any", 16, 2, flashinfer.prefill),
    Planner("flashinfer_prefill_sm90", "FlashInfer SM90 prefill", "any", 16, 1, flashinfer.prefill_sm90),
)
PLANNERS: dict[str, Planner] = {planner.name: planner for planner in _ALL}
