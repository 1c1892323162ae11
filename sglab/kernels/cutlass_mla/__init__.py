"""MLA decode under the contract of SGLang's wrapper around the CUTLASS SM100 kernel."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from sglab.kernels import devices
from sglab.kernels.cutlass_mla import flashinfer, flashinfer_cute, own
from sglab.kernels.cutlass_mla.contract import check, check_apart
from sglab.kernels.cutlass_mla.dispatch import KernelVariant, dispatch
from sglab.kernels.cutlass_mla.heads import pad_heads, slice_heads
from sglab.kernels.recipe import cooked, known, remember, serves, shaped
from sglab.kernels.registry import EVERYWHERE, GPU, Implementation, Operator, needs_triton
from sglab.kernels.streams import stream
from sglab.planning.cutlass_mla_workspace import cutlass_mla_get_workspace_size as planned_workspace_size

__all__ = [
    "KernelVariant",
    "cutlass_mla_decode",
    "cutlass_mla_get_workspace_size",
    "dispatch",
    "operator",
    "pad_heads",
    "slice_heads",
]

operator = Operator(
    "cutlass_mla_decode",
    Implementation("sglab", "sglab.kernels.cutlass_mla.own:run", EVERYWHERE, own.refuses, own.steps),
    Implementation("triton", "sglab.kernels.cutlass_mla.triton:run", GPU, needs_triton),
    Implementation("flashinfer", "sglab.kernels.cutlass_mla.flashinfer:run", frozenset(), flashinfer.refuses),
    Implementation(
        "flashinfer_cute", "sglab.kernels.cutlass_mla.flashinfer_cute:run", frozenset(), flashinfer_cute.refuses
    ),
    Implementation("reference", "sglab.kernels.cutlass_mla.reference:run", EVERYWHERE),
)


def cutlass_mla_decode(
    q_nope: torch.Tensor,
    q_pe: torch.Tensor,
    kv_c_and_k_pe_cache: torch.Tensor,
    seq_lens: torch.Tensor,
    page_table: torch.Tensor,
    workspace: torch.Tensor,
    sm_scale: float,
    num_kv_splits: int = 1,
    *,
    lse: torch.Tensor | None = None,
    seq_lens_cpu: torch.Tensor | Sequence[int] | None = None,
    implementation: str = "auto",
    check_values: bool | None = None,
) -> torch.Tensor:
    """Absorbed MLA decode: every head attends to one shared KV head of 576 dims, whose first 512 are also the value.

    Returns O (batch, heads, 512) in the dtype of q_nope. Raises ContractError. After sgl_kernel.cutlass_mla_decode.

    Args:
        q_nope: (batch, heads, 512), heads ≤ 128, the query after multiplication with W_UK; float16 or bfloat16.
        q_pe: (batch, heads, 64), its rotary part; same dtype.
        kv_c_and_k_pe_cache: (pages, page_size, 576), same dtype; page_size a power of two ≤ 128.
        seq_lens: (batch,) int32; 0 gives O = 0 and LSE = −inf.
        page_table: (batch, width) int32; width · page_size is a multiple of 128. Entries up to the end of a request's
            last 128-token tile must name a page of the pool (with page_size 128 that is every real entry and no other).
        workspace: (bytes,) uint8, for the partial results; see cutlass_mla_get_workspace_size.
        sm_scale: (qk_nope_head_dim + qk_rope_head_dim) ** −0.5 times YaRN's factor, not 576 ** −0.5.
        num_kv_splits: splits per request, at most 256; below 1 lets CUTLASS's set_split_kv choose by the table's width.
            On Hopper our own kernel plans by the lengths instead: see seq_lens_cpu.
        lse: output (batch, heads) float32, natural; None if not wanted.
        seq_lens_cpu: the same lengths on the host, as a ForwardBatch has them. With them our Hopper kernel is planned
            once per step, for all layers; without, and while a CUDA graph is captured, two small kernels plan at every
            call. Nothing waits for the GPU either way.
        check_values: also check contents: lengths, page numbers, and that every row of the pages read is finite.
    """
    tensors = (q_nope, q_pe, kv_c_and_k_pe_cache, seq_lens, page_table, workspace, lse)
    call: Hashable = None
    if serves(q_nope, check_values):
        device, host = devices.device_of(q_nope.device), seq_lens_cpu is not None
        options = (sm_scale, num_kv_splits, implementation, host, stream(q_nope.device))
        call = ("cutlass_mla_decode", shaped(*tensors), options)
        served = known(device, call)
        if served is not None and host:
            plan = own.host_plan_key(device, q_nope, kv_c_and_k_pe_cache, page_table, seq_lens_cpu)
            served = served if plan is None else known(device, (call, plan))
        if served is not None:
            if lse is not None:
                check_apart(lse, *tensors[:3], page_table)
            out = torch.empty_like(q_nope, memory_format=torch.contiguous_format)
            served.serve((*tensors, out))
            return out
    arguments = check(*tensors[:6], sm_scale, num_kv_splits, lse, check_values, seq_lens_cpu)
    recipe = cooked(operator, arguments, implementation)
    if recipe is None:
        operator(arguments, implementation)
        return arguments.out
    if call is not None and own.reusable(arguments):
        calls = [call, (call, own.plan_key(arguments, recipe.keep))]
        remember(device, calls, recipe, (*tensors, arguments.out))
    recipe.run()
    return arguments.out


def cutlass_mla_get_workspace_size(
    max_seq_len: int, num_batches: int, sm_count: int = 0, num_kv_splits: int = 1
) -> int:
    """Bytes that cutlass_mla_decode may use: (4 · 512 + 4) · 128 · splits · num_batches, also at one split.

    Args:
        max_seq_len: tokens that a page-table row can hold (width · page_size).
        sm_count: streaming multiprocessors; 0 asks GPU 0, or takes a B200's 148 where there is none.
        num_kv_splits: as passed to cutlass_mla_decode; below 1 lets set_split_kv choose.
    """
    if sm_count == 0:
        sm_count = devices.sm_count(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    return planned_workspace_size(max_seq_len, num_batches, sm_count, num_kv_splits)
