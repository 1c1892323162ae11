"""What a kernel has to do: FLOPs by the kind of arithmetic that runs them, bytes of memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PIPES = {
    "bf16": "FP16 and BF16, tensor cores",
    "fp8": "FP8 and FP6, tensor cores",
    "fp4": "FP4, tensor cores",
    "int8": "INT8, tensor cores",
    "tf32": "TF32, tensor cores",
    "fp64 tensor": "FP64, tensor cores",
    "fp32": "FP32, no tensor cores",
    "fp16": "FP16 and BF16 in pairs, no tensor cores",
    "fp64": "FP64, no tensor cores",
}
"""Kinds of arithmetic, each with a peak rate of its own."""


@dataclass(frozen=True)
class Work:
    """FLOPs and bytes.

    Attributes:
        flops: by kind of arithmetic, a key of PIPES; a multiplication and an addition are two.
        nbytes: moved between memory (DRAM) and the GPU when each byte crosses once.
        requested_bytes: that loads, stores and copies moved, repeated ones counted again, where a run was counted.
    """

    flops: Mapping[str, float]
    nbytes: float
    requested_bytes: float | None = None

    def __post_init__(self) -> None:
        unknown = sorted(set(self.flops) - set(PIPES))
        if unknown:
            raise ValueError(f"flops: expected keys of {', '.join(PIPES)}; got {', '.join(unknown)}")
        if not self.nbytes > 0 or any(value < 0 for value in self.flops.values()):
            raise ValueError(f"expected nbytes above 0 and no negative FLOPs; got {self}")

    def __add__(self, other: Work) -> Work:
        """Both, one after the other."""
        kinds = {**self.flops, **other.flops}
        flops = {kind: self.flops.get(kind, 0.0) + other.flops.get(kind, 0.0) for kind in kinds}
        both = (self.requested_bytes, other.requested_bytes)
        requested = None if both[0] is None or both[1] is None else both[0] + both[1]
        return Work(flops, self.nbytes + other.nbytes, requested)
