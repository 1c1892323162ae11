"""Mxfp4 and Mxfp8: checkpoints in OCP Microscaling formats."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sglab.kernels.formats.fp8 import E4M3
from sglab.kernels.formats.microscaling import (
    E8M0_NAN,
    MX_BLOCK,
    dequantize_mxfp8,
    quantize_mxfp8,
    times_e8m0,
    unpack_e2m1,
)
from sglab.layers.loading import WeightError
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors


def _require_numbers(scales: torch.Tensor, name: str) -> None:
    if (scales == E8M0_NAN).any():
        remedy = "255 stands for NaN: the file is damaged, fetch it again."
        raise WeightError(name, "e8m0 scales up to 254", E8M0_NAN, remedy)


@dataclass(frozen=True)
class Mxfp4(Scheme):
    """Weights in MXFP4, activations as they are."""

    weight_name: str = "weight"

    @property
    def stored(self) -> tuple[Stored, ...]:
        return (
            Stored(self.weight_name, torch.uint8, (Axis("out"), Axis("in", 2))),
            Stored("weight_scale", torch.uint8, (Axis("out"), Axis("in", MX_BLOCK))),
        )

    def check(self, tensors: Tensors, label: str) -> None:
        _require_numbers(tensors["weight_scale"], f"{label}weight_scale")

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        return times_e8m0(unpack_e2m1(tensors[self.weight_name]), tensors["weight_scale"])


@dataclass(frozen=True)
class Mxfp8(Scheme):
    """Weights in MXFP8; activations, too, if `activations`.

    Attributes:
        scale_name: "weight_scale" or "weight_scale_inv" (SGLang's own checkpoints).
    """

    activations: bool = True
    scale_name: str = "weight_scale"

    @property
    def stored(self) -> tuple[Stored, ...]:
        return (
            Stored("weight", E4M3, (Axis("out"), Axis("in"))),
            Stored(self.scale_name, torch.uint8, (Axis("out"), Axis("in", MX_BLOCK))),
        )

    def check(self, tensors: Tensors, label: str) -> None:
        _require_numbers(tensors[self.scale_name], f"{label}{self.scale_name}")

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        return dequantize_mxfp8(tensors["weight"], tensors[self.scale_name])

    def activation(self, x: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        return dequantize_mxfp8(*quantize_mxfp8(x)) if self.activations else x
