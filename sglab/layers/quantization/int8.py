"""Int8: W8A8 checkpoints in INT8, or weights alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from sglab.kernels.formats.int8 import int8_mm, per_token_quant_int8, round_int8
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors


@dataclass(frozen=True)
class Int8(Scheme):
    """Weights with a scale per tensor or output channel; activations with one per row, or one in the checkpoint.

    Attributes:
        activations: None: not quantised.
    """

    weights: Literal["tensor", "channel"] = "channel"
    activations: Literal["static", "token"] | None = "token"

    @property
    def stored(self) -> tuple[Stored, ...]:
        out = Axis("out")
        scale = Stored("weight_scale", torch.float32, (out,), fills=self.weights == "tensor")
        static = (Stored("input_scale", torch.float32, fills=True),) if self.activations == "static" else ()
        return (Stored("weight", torch.int8, (out, Axis("in"))), scale, *static)

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        return tensors["weight"].float() * tensors["weight_scale"][..., None]

    def linear(self, x: torch.Tensor, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        if self.activations is None:
            return super().linear(x, tensors, shape)
        if self.activations == "static":
            rows = tensors["input_scale"].reshape(1, 1)
            q = round_int8(x.float() / rows)
        else:
            q, rows = per_token_quant_int8(x)
        return (int8_mm(q, tensors["weight"]) * rows * tensors["weight_scale"]).to(x.dtype)
