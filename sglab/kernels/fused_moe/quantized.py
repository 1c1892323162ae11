"""ExpertQuantization: experts in a small format, and how their activations are rounded before each product."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn.functional import pad

from sglab.kernels.contract import Contract
from sglab.kernels.formats.fp8 import E4M3, block_quant_dequant, per_token_group_quant_fp8, scaled_fp8_quant
from sglab.kernels.formats.int4 import unpack_int4
from sglab.kernels.formats.microscaling import MX_BLOCK, times_e8m0, unpack_e2m1

Kind = Literal["fp8_block", "w4a8", "mxfp4"]
STORED = {"fp8_block": E4M3, "w4a8": torch.int8, "mxfp4": torch.uint8}


@dataclass(frozen=True)
class ExpertQuantization:
    """How w1 and w2 of fused_experts are stored.

    Attributes:
        kind: "fp8_block": e4m3 with a scale per block, activations in e4m3 with one per token and block[1] columns;
            "w4a8": signed int4, two per byte, with a scale per block[1] columns, activations in e4m3 by a static
            scale; "mxfp4": e2m1, two per byte, with an e8m0 scale per 32 columns, activations as they are.
        w1_scale, w2_scale: (experts, ceil(rows / block[0]), ceil(columns / block[1])); float32, for mxfp4 uint8.
        block: rows and columns that share a scale.
        a1_scale, a2_scale: float32 of one element, of w4a8's activations.
    """

    kind: Kind
    w1_scale: torch.Tensor
    w2_scale: torch.Tensor
    block: tuple[int, int] = (128, 128)
    a1_scale: torch.Tensor | None = None
    a2_scale: torch.Tensor | None = None

    @property
    def packing(self) -> int:
        """Values in a byte."""
        return 1 if self.kind == "fp8_block" else 2

    def check(self, contract: Contract, w1: torch.Tensor, w2: torch.Tensor) -> None:
        """Require weights and scales of these shapes; w1's and w2's own are checked."""
        contract.require(self.kind in STORED, "quantization", " or ".join(STORED), self.kind, "Choose one of them.")
        dtype = (torch.uint8,) if self.kind == "mxfp4" else (torch.float32,)
        for name, weight, scale in (("w1", w1, self.w1_scale), ("w2", w2, self.w2_scale)):
            rows, columns = weight.shape[1], weight.shape[2] * self.packing
            blocks = (-(-rows // self.block[0]), -(-columns // self.block[1]))
            contract.tensor(f"{name}_scale", scale, f"experts {blocks[0]} {blocks[1]}", dtype)
        for name, given in (("a1_scale", self.a1_scale), ("a2_scale", self.a2_scale)):
            right = given is not None and given.numel() == 1 if self.kind == "w4a8" else given is None
            wanted = "one number for w4a8, None otherwise"
            contract.require(right, name, wanted, given, "Take the largest of the experts' scales.")

    def weight(self, stored: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """One expert's matrix, float32 [rows, columns]."""
        if self.kind == "fp8_block":
            return block_quant_dequant(stored, scale, self.block)
        if self.kind == "w4a8":
            wide = unpack_int4(stored).float()
            return wide * scale.repeat_interleave(self.block[1], -1)[:, : wide.shape[1]]
        return times_e8m0(unpack_e2m1(stored), scale)

    def activation(self, x: torch.Tensor, which: int) -> torch.Tensor:
        """What product `which`, 1 or 2, sees of its input: float32, or x itself."""
        if self.kind == "mxfp4":
            return x
        q, scale = self.rounded(x, which)
        return (block_quant_dequant(q, scale, (1, self.block[1])) if self.kind == "fp8_block" else q.float() * scale)[
            :, : x.shape[1]
        ]

    def rounded(self, x: torch.Tensor, which: int) -> tuple[torch.Tensor, torch.Tensor]:
        """e4m3 of [tokens, columns], padded to whole groups, and its scales."""
        if self.kind == "fp8_block":
            return per_token_group_quant_fp8(pad(x, (0, -x.shape[1] % self.block[1])), self.block[1])
        return scaled_fp8_quant(x, self.a1_scale if which == 1 else self.a2_scale)


def mxfp4_experts(w1_scale: torch.Tensor, w2_scale: torch.Tensor) -> ExpertQuantization:
    """MXFP4's, whose blocks are fixed."""
    return ExpertQuantization("mxfp4", w1_scale, w2_scale, (1, MX_BLOCK))
