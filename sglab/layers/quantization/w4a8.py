"""W4A8: experts of signed four-bit integers with a scale per group of 128, and FP8 activations with one scale.

Source of the layout: SGLang 0.5.23 `layers/quantization/w4afp8.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.formats.fp8 import scaled_fp8_quant
from sglab.kernels.formats.int4 import unpack_int4
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors


@dataclass(frozen=True)
class W4A8(Scheme):
    """Weights in signed int4 (`weight`, `weight_scale_inv`), activations in FP8 by a static scale."""

    group_size: int = 128

    @property
    def stored(self) -> tuple[Stored, ...]:
        out = Axis("out")
        return (
            Stored("weight", torch.int8, (out, Axis("in", 2))),
            Stored("weight_scale_inv", torch.float32, (out, Axis("in", self.group_size))),
            Stored("input_scale", torch.float32, fills=True),
        )

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        scale = tensors["weight_scale_inv"].repeat_interleave(self.group_size, -1)[..., : shape[1]]
        return unpack_int4(tensors["weight"]).float() * scale

    def activation(self, x: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        q, scale = scaled_fp8_quant(x, tensors["input_scale"])
        return q.float() * scale
