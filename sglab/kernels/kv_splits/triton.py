# mypy: disable-error-code="no-untyped-def"
"""get_num_kv_splits on the device, one program for the batch: nothing is copied to the host, so CUDA graphs work."""

from __future__ import annotations

import triton.language as tl

from sglab.kernels.kv_splits.contract import SplitsArguments
from sglab.planning.arith import next_power_of_two
from sglab.planning.num_kv_splits import head_blocks
from sglab.triton import LaunchRecord, triton_kernel


@triton_kernel
def get_num_kv_splits_triton(
    num_kv_splits_ptr,
    seq_lens_ptr,
    num_seq,
    num_group,
    head_blocks,
    max_kv_splits,
    device_core_count,
    MAX_NUM_SEQ: tl.constexpr,
):
    request = tl.arange(0, MAX_NUM_SEQ)
    real = request < num_seq
    lens = tl.load(seq_lens_ptr + request, mask=real, other=0).to(tl.int32)
    longest = tl.max(lens, axis=0)
    shortest = tl.min(tl.where(real, lens, longest), axis=0)
    if longest * 8 < shortest * 10:
        shortest = longest  # within 25 %: as good as equal
    # Chunks that even out the lengths within the batch …
    chunk_1 = tl.cdiv(longest, tl.minimum(tl.cdiv(longest, shortest), max_kv_splits))
    # … and chunks that fill the device, of which longer requests may take more.
    growth = tl.maximum(tl.log2(longest.to(tl.float32) / 64.0), 1.0)
    cores = (device_core_count * growth).to(tl.int32)
    token_grid = num_seq * num_group * head_blocks
    chunk_2 = tl.cdiv(longest, tl.minimum(tl.cdiv(cores, token_grid), max_kv_splits))
    splits = tl.maximum(tl.cdiv(lens, chunk_1), tl.cdiv(lens, chunk_2))
    for draft in range(num_group):
        tl.store(num_kv_splits_ptr + request * num_group + draft, splits, mask=real)


def run(arguments: SplitsArguments) -> tuple[LaunchRecord, ...]:
    batch = len(arguments.seq_lens)
    record = get_num_kv_splits_triton[(1,)](
        arguments.num_kv_splits,
        arguments.seq_lens,
        batch,
        arguments.num_group,
        head_blocks(arguments.num_head, arguments.num_kv_head),
        arguments.max_kv_splits,
        arguments.device_core_count,
        MAX_NUM_SEQ=max(256, next_power_of_two(batch)),
        num_warps=4,
    )
    return (record,)
