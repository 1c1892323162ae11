"""The merges as CUDA C++: csrc/kernels/portable/merge.cu, from the PTX that ships, on a GPU or emulated."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from sglab.gpu import Kernel, Launch
from sglab.gpu.launch_record import LaunchRecord
from sglab.kernels import devices, ptx
from sglab.kernels.launch_cache import described, kept
from sglab.kernels.merge.contract import MergeRule, PairArguments, StatesArguments

THREADS = 128
VECTOR_BYTES = 16
WARP = 32
_PAIRS = {
    MergeRule.BASE2: "merge_state",
    MergeRule.V2: "merge_state_v2",
    MergeRule.V2_GUARDED: "merge_state_v2_guarded",
}
_STATES = {MergeRule.BASE2: "merge_states", MergeRule.BASE2_NATURAL: "merge_states_natural"}
_DTYPES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


def refuses(arguments: PairArguments | StatesArguments) -> str | None:
    """Why these kernels cannot run a call, or None."""
    inputs = arguments.v if isinstance(arguments, StatesArguments) else arguments.v_a
    if arguments.v_merged.dtype != inputs.dtype:
        return f"has no kernel that merges {inputs.dtype} into {arguments.v_merged.dtype}"
    return devices.refuses_ptx("merge", arguments.device)


def pair(a: PairArguments) -> tuple[LaunchRecord, ...]:
    """Merge two states. One group of lanes owns a row, so an output may be an input."""
    tokens, heads, head_dim = a.v_a.shape
    kernel, lanes = _kernel(_PAIRS[a.rule], (a.v_a, a.v_b, a.v_merged))
    arguments = [a.v_a, a.s_a, a.v_b, a.s_b, a.mask, a.v_merged, a.s_merged, tokens * heads, heads, head_dim, lanes]
    return _launch(kernel, tokens * heads, lanes, arguments, a.device)


def states(a: StatesArguments) -> tuple[LaunchRecord, ...]:
    """Merge n states."""
    tokens, n, heads, head_dim = a.v.shape
    kernel, lanes = _kernel(_STATES[a.rule], (a.v, a.v_merged))
    arguments = [a.v, a.s, a.v_merged, a.s_merged, tokens * heads, n, heads, head_dim, lanes]
    return _launch(kernel, tokens * heads, lanes, arguments, a.device)


def _kernel(name: str, vectors: tuple[torch.Tensor, ...]) -> tuple[Kernel, int]:
    """The kernel, and how many lanes a row gets: as many as it has vectors, rounded up to a power of two."""
    head_dim, size = vectors[0].shape[-1], vectors[0].element_size()
    whole = head_dim * size % VECTOR_BYTES == 0 and all(v.data_ptr() % VECTOR_BYTES == 0 for v in vectors)
    steps = head_dim * size // VECTOR_BYTES if whole else head_dim
    lanes = min(WARP, 1 << max(steps - 1, 0).bit_length())
    suffix = _DTYPES[vectors[0].dtype] + ("" if whole else "_1")
    return ptx.module("merge")[f"{name}_{suffix}"], lanes


def _launch(
    kernel: Kernel, rows: int, lanes: int, arguments: Sequence[object], device: torch.device
) -> tuple[LaunchRecord, ...]:
    if rows == 0:
        return ()
    where = devices.device_of(device)
    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]

    def make() -> list[Launch]:
        return [kernel.prepare(where, grid=-(-rows * lanes // THREADS), block=THREADS, args=arguments)]

    (launch,) = kept(where, (kernel.name, described(*tensors)), make, tensors)
    return (devices.run(where, launch, "our CUDA kernel"),)
