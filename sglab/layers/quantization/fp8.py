"""Fp8: checkpoints in e4m3, with scales per tensor, output channel or block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from sglab.kernels import w8a8_block_fp8_matmul
from sglab.kernels.formats.fp8 import (
    E4M3,
    block_quant_dequant,
    has_e4m3,
    per_token_group_quant_fp8,
    scaled_fp8_quant,
)
from sglab.layers.quantization.scheme import Axis, Scheme, Stored, Tensors


@dataclass(frozen=True)
class Fp8(Scheme):
    """W8A8 in FP8, or weights alone.

    Attributes:
        weights: a scale per tensor, per output channel, or per block.
        activations: None: not quantised; "static": one scale, in the checkpoint; "tensor", "token": found as they
            come, one or one per row; "group": per row and block[1] columns.
        scale_name: of the weights' scales; scale times value is the weight, whatever "inv" says.
    """

    weights: Literal["tensor", "channel", "block"] = "tensor"
    activations: Literal["static", "tensor", "token", "group"] | None = None
    block: tuple[int, int] = (128, 128)
    scale_name: str = "weight_scale"

    @property
    def stored(self) -> tuple[Stored, ...]:
        out, depth = Axis("out"), Axis("in")
        if self.weights == "block":
            axes: tuple[Axis, ...] = (Axis("out", self.block[0]), Axis("in", self.block[1]))
        else:
            axes = (out,)
        scale = Stored(self.scale_name, torch.float32, axes, fills=self.weights == "tensor")
        static = (Stored("input_scale", torch.float32, fills=True),) if self.activations == "static" else ()
        return (Stored("weight", E4M3, (out, depth)), scale, *static)

    @property
    def ignored(self) -> frozenset[str]:  # type: ignore[override]
        return frozenset() if self.activations == "static" else frozenset({"input_scale"})

    def dequantize(self, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        weight, scale = tensors["weight"], tensors[self.scale_name]
        if self.weights == "block":
            return block_quant_dequant(weight, scale, self.block)
        return weight.float() * scale[..., None]

    def activation(self, x: torch.Tensor, tensors: Tensors) -> torch.Tensor:
        if self.activations is None:
            return x
        if self.activations == "group":
            q, scale = self._groups(x)
            return block_quant_dequant(q, scale, (1, self.block[1]))[:, : x.shape[-1]]
        q, scale = self._rows(x, tensors)
        return q.float() * scale

    def linear(self, x: torch.Tensor, tensors: Tensors, shape: tuple[int, int]) -> torch.Tensor:
        if not has_e4m3(x.device) or self.activations is None:
            return super().linear(x, tensors, shape)
        weight, scale = tensors["weight"], tensors[self.scale_name]
        if self.weights == "block" and self.activations == "group" and not shape[1] % self.block[1]:
            q, groups = self._groups(x)
            return w8a8_block_fp8_matmul(q, weight, groups, scale, self.block, output_dtype=x.dtype)
        if self.weights == "block" or shape[0] % 16 or shape[1] % 16:
            return super().linear(x, tensors, shape)
        q, rows = self._rows(x, tensors)
        rows = rows.expand(len(q), 1).contiguous()
        out = torch._scaled_mm(q, weight.T, rows, scale[None].contiguous(), out_dtype=torch.bfloat16)
        return out.to(x.dtype)

    def _groups(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        padded = torch.nn.functional.pad(x, (0, -x.shape[-1] % self.block[1]))
        return per_token_group_quant_fp8(padded, self.block[1])

    def _rows(self, x: torch.Tensor, tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
        static = tensors["input_scale"] if self.activations == "static" else None
        return scaled_fp8_quant(x, static, self.activations == "token")
