"""The plan behind a backend's pass: one that SplitKV shows for a decode, FlashInfer's own for the other modes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sglab.attention.base import AttentionBackend
from sglab.attention.explore.built import wrappers_of
from sglab.attention.flashinfer.mha import FlashInferAttnBackend
from sglab.attention.selection import Hardware
from sglab.engine import ForwardBatch, ModelRunner, RadixAttention
from sglab.planning import PLANNERS, Plan
from sglab.planning.flashinfer_decode import DecodePlan
from sglab.planning.flashinfer_mla import MLAPlan


@dataclass(frozen=True)
class PlanFacts:
    """A plan in numbers.

    Attributes:
        planner: its name in `sglab.planning.PLANNERS`, which SplitKV shows; "" where it has none for this pass.
        why: the rule that made it.
        ctas: launched; waves: over those that run at once; splits: least and most of a request; None: not of this plan.
        workspace_bytes: that the kernel needs for it; partial_bytes: of partial outputs and their LSE.
        array_bytes: of the plan's own arrays.
    """

    planner: str
    title: str
    why: str
    workspace_bytes: int
    array_bytes: int
    partial_bytes: int = 0
    ctas: int | None = None
    waves: float | None = None
    splits: tuple[int, int] | None = None


def _flashinfer(backend: AttentionBackend) -> str:
    if isinstance(backend, FlashInferAttnBackend):
        if backend.deterministic:
            return ""
        return "flashinfer_prefill" if backend.decode_use_tensor_cores else "flashinfer_decode"
    return "flashinfer_mla"


_BY_BACKEND: dict[str, Callable[[AttentionBackend], str]] = {
    "flashmla": lambda backend: "flash_mla",
    "cutlass_mla": lambda backend: "sglang_cutlass_mla",
    "flashinfer": _flashinfer,
    "fa3": lambda backend: "" if getattr(backend, "num_splits", 0) else "flash_attention_3",
    "triton": lambda backend: (
        "sglang_triton_deterministic"
        if getattr(getattr(backend, "metadata", None), "deterministic", False)
        else "sglang_triton"
    ),
}
_BY_BACKEND["wave"] = _BY_BACKEND["triton"]


def planner_of(backend: AttentionBackend, batch: ForwardBatch) -> str:
    """The planner of a backend's decode; "": its kernel's schedule is not one of `sglab.planning`'s."""
    find = _BY_BACKEND.get(backend.serving.name)
    return find(backend.serving) if find is not None and batch.forward_mode.is_decode() else ""


def plan_of(
    backend: AttentionBackend,
    runner: ModelRunner,
    batch: ForwardBatch,
    layer: RadixAttention,
    graph: bool,
    hardware: Hardware,
) -> PlanFacts | str:
    """The plan of a prepared backend, or a sentence saying why there is none."""
    name = planner_of(backend, batch)
    if name == "flash_attention_3" and hardware.device == "cuda" and hardware.capability[0] == 8:
        return "FlashAttention-3 has tiles of its own on SM8x; those planned with here are SM90's."
    if name:
        try:
            return _facts(name, decode_plan(name, runner, batch, layer, graph))
        except ValueError as refused:
            return f"{PLANNERS[name].title} refuses it: {refused}"
    wrappers = wrappers_of(backend)
    if wrappers and backend.serving.name == "flashinfer" and batch.batch_size:
        return _of_wrapper(wrappers[0].plan())
    if backend.serving.name in _BY_BACKEND:
        return "Nothing is planned for this pass before its kernel runs."
    return "Its kernel decides by itself: it has no plan on the host."


def decode_plan(name: str, runner: ModelRunner, batch: ForwardBatch, layer: RadixAttention, graph: bool) -> Plan:
    """The plan that SplitKV shows, from a pass's own lengths, heads and pages."""
    window = layer.sliding_window_size
    lens = batch.seq_lens if window < 0 else batch.seq_lens.clamp(max=window + 1)
    slots = name.startswith(("flashinfer_decode", "flashinfer_prefill"))  # SGLang gives FlashInfer pages of one slot
    planned_dims = (576, 512) if layer.head_dim == 576 else (layer.head_dim, layer.v_head_dim)
    return PLANNERS[name](
        lens.tolist(),
        num_heads=layer.tp_q_head_num,
        num_kv_heads=layer.tp_k_head_num,
        sm_count=runner.device_core_count,
        page_size=1 if slots else runner.page_size,
        head_dim_qk=planned_dims[0],
        head_dim_vo=planned_dims[1],
        enable_cuda_graph=graph,
    )


def _facts(name: str, plan: Plan) -> PlanFacts:
    splits: dict[int, set[int]] = {}
    for request, split in zip(plan.work.request.tolist(), plan.work.split.tolist(), strict=True):
        splits.setdefault(request, set()).add(split)
    counts = [len(each) for each in splits.values()] or [0]
    return PlanFacts(
        planner=name,
        title=PLANNERS[name].title,
        why=plan.why(),
        workspace_bytes=plan.workspace_bytes,
        array_bytes=sum(array.nbytes for array in plan.arrays.values()),
        partial_bytes=plan.merge.bytes_read,
        ctas=plan.launch.num_ctas,
        waves=plan.waves,
        splits=(min(counts), max(counts)),
    )


def _of_wrapper(plan: object) -> PlanFacts:
    """FlashInfer's plan of a pass with several query rows per request."""
    arrays = sum(value.nbytes for value in vars(plan).values() if hasattr(value, "nbytes"))
    if isinstance(plan, MLAPlan):
        units = len(plan.kv_start)
        why = f"{units:,} work units of at most {plan.kv_len_limit:,} KV tokens, to the cluster with least work."
        size = plan.float_workspace_bytes + plan.int_workspace_bytes
        return PlanFacts("", "FlashInfer MLA", why, size, arrays, ctas=plan.num_blks_x * plan.num_blks_y)
    assert hasattr(plan, "new_batch_size")
    tile = "" if isinstance(plan, DecodePlan) else f" of {getattr(plan, 'cta_tile_q', 0)} query rows"
    split = "their KV cut into chunks" if getattr(plan, "split_kv", False) else "nothing is split"
    why = f"{plan.new_batch_size:,} tiles{tile}; {split}."
    size = getattr(plan, "float_workspace_bytes", 0) + getattr(plan, "int_workspace_bytes", 0)
    return PlanFacts("", "FlashInfer FA2 prefill", why, size, arrays)
