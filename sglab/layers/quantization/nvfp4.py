"""Nvfp4: checkpoints in NVFP4.

ModelOpt stores the global scale s: w = value · group scale · s. compressed-tensors stores its reciprocal.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.formats.fp8 import E4M3
from sglab.kernels.formats.nvfp4 import NV_GROUP, dequantize_nvfp4, quantize_nvfp4
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors, require_scales


@dataclass(frozen=True)
class Nvfp4(Scheme):
    """Weights in NVFP4; activations, too, if `activations`: their groups' scales are found as they come.

    Attributes:
        reciprocal: global scales are stored as their reciprocals, under compressed-tensors' names.
    """

    activations: bool = True
    reciprocal: bool = False

    @property
    def names(self) -> tuple[str, str, str]:
        """Of the values, the tensor's scale and the activations'."""
        if self.reciprocal:
            return "weight_packed", "weight_global_scale", "input_global_scale"
        return "weight", "weight_scale_2", "input_scale"

    @property
    def ignored(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset() if self.activations else frozenset({self.names[2]})

    @property
    def stored(self) -> tuple[Stored, ...]:
        out = Axis("out")
        weight, scale, given = self.names
        tensors = (
            Stored(weight, torch.uint8, (out, Axis("in", 2))),
            Stored("weight_scale", E4M3, (out, Axis("in", NV_GROUP))),
            Stored(scale, torch.float32, (out,), fills=True),
        )
        return (*tensors, Stored(given, torch.float32, fills=True)) if self.activations else tensors

    def check(self, tensors: Tensors, label: str) -> None:
        super().check(tensors, label)
        for name in self.names[1 : 3 if self.activations else 2]:
            if self.reciprocal:
                require_scales(1 / tensors[name], f"{label}{name}: its reciprocal")

    def _global(self, tensors: Tensors, which: int) -> torch.Tensor:
        scale = tensors[self.names[which]]
        return 1 / scale if self.reciprocal else scale

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        return dequantize_nvfp4(tensors[self.names[0]], tensors["weight_scale"], self._global(tensors, 1))

    def activation(self, x: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        return dequantize_nvfp4(*quantize_nvfp4(x, self._global(tensors, 2))) if self.activations else x
