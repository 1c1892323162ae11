"""Launches of notebook 14: a block-scaled product, whose scales go through tensor memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sglab.gpu import Kernel
from sglab.kernels import ptx
from sglab.kernels.formats.microscaling import dequantize_mxfp4, dequantize_mxfp8, quantize_mxfp4, quantize_mxfp8
from sglab.kernels.formats.nvfp4 import dequantize_nvfp4, quantize_nvfp4

from .tensor_tiles import COLUMNS, LANES, SharedTile, Words

SCALES_A_AT, SCALES_B_AT = 24576, 25600
"""In the image of shared memory."""


@dataclass
class ScaledTile(SharedTile):
    """A block-scaled product D (128, 64) = A Bᵀ of a (128, 128) and b (64, 128), quantised, on the emulated B200.

    Attributes:
        kind: "mxf8": e4m3, a power of two (e8m0) per 32 of K; "mxf4": e2m1, the same; "nvf4": e2m1, an e4m3 per 16, and
            a float32 for the whole tensor, multiplied afterwards.
        scales_a, scales_b: uint8 (rows, blocks), as they go to tensor memory; may be changed before a run.
        d: float32 (1, 128 lanes, 128 columns) of tensor memory.
    """

    kind: str = "mxf8"
    scales_a: torch.Tensor = field(init=False)
    scales_b: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        quantized = [_quantized(self.kind, each) for each in (self.a, self.b)]
        self._values = [values for values, _, _ in quantized]
        self.scales_a, self.scales_b = (scales.view(torch.uint8).clone() for _, scales, _ in quantized)
        self._factor = float(quantized[0][2] * quantized[1][2])
        self.stored_a = self.stored_b = "128B" if self.kind == "mxf8" else "64B"

    @property
    def _kernel(self) -> Kernel:
        return ptx.module("tcgen05_tile")[f"tcgen05_{self.kind}"]

    def _launch(self) -> dict[str, Any]:
        self.d = torch.zeros(1, LANES, COLUMNS)
        image = self._image(*self._values)
        for at, scales in ((SCALES_A_AT, self.scales_a), (SCALES_B_AT, self.scales_b)):
            data = scale_bytes(scales)
            image[at : at + data.size] = data
        wide = self.kind == "mxf8"
        code, e8m0 = (0, 1) if wide else (1, int(self.kind == "mxf4"))
        word = code << 7 | code << 10 | 64 >> 3 << 17 | e8m0 << 23 | 128 >> 7 << 27
        args = [torch.from_numpy(image), self.d, *self._descriptors(128 if wide else 64), word, 4 if wide else 2, 0]
        return {"grid": 1, "block": 128, "cluster": 1, "args": args}

    def result(self) -> torch.Tensor:
        """D by row and column."""
        return self.d[0, :, : len(self.b)] * self._factor

    def dequantized(self) -> torch.Tensor:
        """The product of what A and B became, in float64."""
        a, b = (_dequantized(self.kind, each) for each in (self.a, self.b))
        return a @ b.T

    def bits_per_value(self) -> float:
        """Of A, its scales included."""
        return 8 * (self._values[0].nbytes + self.scales_a.nbytes) / self.a.numel()


def scale_bytes(scales: torch.Tensor) -> Words:
    """Scales (rows, blocks) as tcgen05.cp 32x128b.warpx4 copies them: row r at lane r % 32, column r // 32, a byte per
    block; 512 bytes for every four blocks."""
    rows, blocks = scales.shape
    padded = np.zeros((128, blocks), np.uint8)
    padded[:rows] = scales.numpy()
    return padded.reshape(4, 32, blocks // 4, 4).transpose(2, 1, 0, 3).reshape(-1)


def _quantized(kind: str, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    one = torch.ones(())
    if kind == "mxf8":
        return (*quantize_mxfp8(x), one)
    return (*quantize_mxfp4(x), one) if kind == "mxf4" else quantize_nvfp4(x)


def _dequantized(kind: str, x: torch.Tensor) -> torch.Tensor:
    if kind == "mxf8":
        return dequantize_mxfp8(*quantize_mxfp8(x)).double()
    if kind == "mxf4":
        values, scales = quantize_mxfp4(x)
        return dequantize_mxfp4(values.unflatten(-1, (-1, 16)), scales, torch.float32).double()
    return dequantize_nvfp4(*quantize_nvfp4(x)).double()
