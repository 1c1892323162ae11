"""Workspace bytes of the SM100 MLA decode kernel.

Sources: CUTLASS 4.7 `kernel/sm100_fmha_mla_tma_warpspecialized.hpp` (`get_workspace_size`); the copies in SGLang
(`sgl-kernel/csrc/attention/cutlass_sm100_mla`) and FlashInfer 0.7.2, which lack the test for split 1; SGLang 0.5.9
`sgl_kernel.cutlass_mla_get_workspace_size`. The reduction kernel adds nothing.
"""

from __future__ import annotations

from sglab.planning import check
from sglab.planning.mla_dims import LATENT_DIM, NUM_HEADS
from sglab.planning.set_split_kv import fixed_split_kv, set_split_kv

BYTES_PER_PARTIAL = 4 * LATENT_DIM + 4
"""One fp32 row of O and its fp32 LSE."""


def cutlass_workspace_size(split_kv: int, B: int, *, is_fused_reduction: bool = False) -> int:
    """CUTLASS 4.7, bytes: nothing at split 1; the fused reduction (4.2 on) keeps LSE sums, maxima and two locks."""
    split_kv, B = _checked(split_kv, B)
    if split_kv == 1:
        return 0
    if is_fused_reduction:
        return NUM_HEADS * B * (4 + 4) + 2 * B * 4
    return BYTES_PER_PARTIAL * NUM_HEADS * split_kv * B


def copied_workspace_size(split_kv: int, B: int) -> int:
    """The copies in SGLang and FlashInfer, bytes: the split formula even at split 1, where nothing uses it."""
    split_kv, B = _checked(split_kv, B)
    return BYTES_PER_PARTIAL * NUM_HEADS * split_kv * B


def cutlass_mla_get_workspace_size(
    max_seq_len: int, num_batches: int, sm_count: int = 148, num_kv_splits: int = 1
) -> int:
    """SGLang 0.5.9's entry point, bytes; `num_kv_splits` -1 lets set_split_kv choose.

    The real function reads `sm_count` 0 as "ask device 0"; here the SMs have to be named.
    """
    if num_kv_splits >= 1:
        split = fixed_split_kv(num_kv_splits, max_seq_len, num_batches, sm_count)
    else:
        split = set_split_kv(max_seq_len, num_batches, sm_count)
    return copied_workspace_size(split.split_kv, num_batches)


def _checked(split_kv: int, B: int) -> tuple[int, int]:
    remedy = "resolve -1 with set_split_kv first"
    return check.integer("split_kv", split_kv, minimum=1, remedy=remedy), check.integer("B", B, minimum=1)
