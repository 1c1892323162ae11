"""Launches of notebook 14: a product by mma.sync, wgmma and tcgen05.mma, on operands that lie where a caller says."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from sglab import layouts
from sglab.emulator import EmulatedDevice
from sglab.emulator.session import Session
from sglab.events.log import EventLog
from sglab.gpu import Kernel
from sglab.kernels import ptx
from sglab.kernels.formats.microscaling import dequantize_mxfp4, dequantize_mxfp8, quantize_mxfp4, quantize_mxfp8
from sglab.kernels.formats.nvfp4 import dequantize_nvfp4, quantize_nvfp4
from sglab.layouts.tiles import SPANS

IMAGE, A_AT, B_AT = 32768, 0, 16384
SCALES_A_AT, SCALES_B_AT = 24576, 25600
LANES, COLUMNS = 128, 128
OLD = -1.0
"""What tensor memory holds before the products."""
ORDERS = ("right", "no wait", "commit first")
Words = npt.NDArray[np.uint8]


def mma(a: torch.Tensor, b: torch.Tensor, device: EmulatedDevice | None = None) -> torch.Tensor:
    """One mma.sync m16n8k16 on registers.

    Args:
        a, b: float16 (32 lanes, 4 or 2 registers, 2 parts): what each register of each lane holds.

    Returns:
        float32 (32 lanes, 4 registers) of D.
    """
    for name, given, registers in (("a", a, 4), ("b", b, 2)):
        if tuple(given.shape) != (32, registers, 2):
            raise ValueError(
                f"{name}: expected (32, {registers}, 2) halves by lane, register, part; got {tuple(given.shape)}"
            )
    d = torch.zeros(32, 4)
    words = [each.to(torch.float16).contiguous().view(torch.int32) for each in (a, b)]
    ptx.module("mma_fragments")["mma_m16n8k16"].launch(device or EmulatedDevice("sm_80"), grid=1, block=32, args=[*words, d])
    return d


def spread(matrix: torch.Tensor, name: str) -> torch.Tensor:
    """A matrix as the registers of a fragment, (lanes, registers, parts)."""
    fragment = layouts.fragment(name)
    out = torch.zeros(fragment.lanes, fragment.registers, fragment.parts, dtype=matrix.dtype)
    for row, column, owner in fragment.owners():
        out[owner] = matrix[row, column]
    return out


def gathered(registers: torch.Tensor, name: str) -> torch.Tensor:
    """The matrix that a fragment's registers, (lanes, registers), hold; or tensor memory, (lanes, columns)."""
    fragment = layouts.fragment(name)
    at = torch.tensor([owner[:2] for _, _, owner in fragment.owners()])
    return registers[at[:, 0], at[:, 1]].view(fragment.rows, fragment.columns)


@cache
def _offsets(swizzle: str, rows: int, k: int, bits: int) -> npt.NDArray[np.int64]:
    layout = layouts.shared_tile(swizzle, rows, k, bits)
    return np.array([[layout((row, column)) for column in range(k)] for row in range(rows)])


def stored(matrix: torch.Tensor, swizzle: str) -> Words:
    """The bytes of an operand tile in shared memory, in the canonical K-major layout.

    Args:
        matrix: (rows, bytes or halves); its rows must be as long as the swizzle's pattern, or "plain" for rows one after
            the other, 128 bytes each, without a swizzle.
    """
    raw = matrix.contiguous().view(torch.uint8).numpy().reshape(matrix.shape[0], -1)
    if swizzle == "plain":
        return raw.reshape(-1)
    out = np.zeros(raw.size, np.uint8)
    out[_offsets(swizzle, *raw.shape, 8)] = raw
    return out


def descriptor(start: int, stride: int, swizzle: str = "128B", arch: str = "sm_100a") -> int:
    """A shared memory descriptor of a K-major operand.

    Args:
        start: address of its first byte.
        stride: bytes from eight rows to the next eight (SBO).
        swizzle: "none", "32B", "64B", "128B".
        arch: sm_90a (wgmma) or sm_100a (tcgen05), which has another field for the swizzle, and a version.
    """
    place = list(SPANS).index(swizzle)
    word = start >> 4 | stride >> 4 << 32
    if arch == "sm_90a":
        return word | (0, 3, 2, 1)[place] << 62
    return word | 1 << 46 | (0, 6, 4, 2)[place] << 61


def instruction(m: int = 128, n: int = 64) -> int:
    """tcgen05.mma's instruction descriptor for kind::f16 with float16 operands, K-major, and float32 sums."""
    return 1 << 4 | n >> 3 << 17 | m >> 4 << 24


@dataclass
class _Tile:
    """What products of shared memory have in common."""

    a: torch.Tensor
    b: torch.Tensor
    stored_a: str = "128B"
    stored_b: str = "128B"
    a_descriptor: int | None = None
    b_descriptor: int | None = None
    d: torch.Tensor = field(init=False)

    def run(self, **device: Any) -> Any:
        """Launches; `device` are options of EmulatedDevice. Returns the report, with findings if sanitize=True."""
        return self._kernel.launch(self._device(device), **self._launch())

    def record(self, **device: Any) -> EventLog:
        """Launches and keeps every event."""
        return self._kernel.record(self._device(device), **self._launch())

    def session(self, **device: Any) -> Session:
        """The launch, to be stepped."""
        return self._kernel.session(self._device(device), **self._launch())

    def product(self) -> torch.Tensor:
        """A · Bᵀ in float64."""
        return self.a.double() @ self.b.double().T

    arch = "sm_100a"

    @property
    def _kernel(self) -> Kernel:
        raise NotImplementedError

    def _launch(self) -> dict[str, Any]:
        raise NotImplementedError

    def _device(self, options: dict[str, Any]) -> EmulatedDevice:
        return EmulatedDevice(self.arch, **options)

    def _image(self, a: torch.Tensor, b: torch.Tensor) -> Words:
        image = np.zeros(IMAGE, np.uint8)
        for at, matrix, how in ((A_AT, a, self.stored_a), (B_AT, b, self.stored_b)):
            data = stored(matrix, how)
            image[at : at + data.size] = data
        return image

    def _descriptors(self, span: int = 128) -> list[int]:
        swizzle = {size: name for name, size in SPANS.items()}[span]
        given = (self.a_descriptor, self.b_descriptor)
        return [
            descriptor(at, 8 * span, swizzle, self.arch) if one is None else one
            for at, one in zip((A_AT, B_AT), given, strict=True)
        ]


@dataclass
class WarpgroupTile(_Tile):
    """A wgmma product D (64, 64) = A Bᵀ of a and b, float16 (64, 64), on the emulated H100.

    Attributes:
        stored_a, stored_b: how they lie in shared memory: "128B", or "plain" (see `stored`).
        a_descriptor, b_descriptor: in place of the right ones; A lies at 0, B at 16,384.
        d: float32 (128 threads, 32 registers).
    """

    arch = "sm_90a"

    @property
    def _kernel(self) -> Kernel:
        return ptx.module("wgmma_tile")["wgmma_m64n64k16"]

    def _launch(self) -> dict[str, Any]:
        self.d = torch.zeros(LANES, 32)
        image = torch.from_numpy(self._image(self.a, self.b))
        return {"grid": 1, "block": 128, "args": [image, self.d, *self._descriptors(), 4]}

    def result(self) -> torch.Tensor:
        """D by row and column."""
        return gathered(self.d, "wgmma.m64n64k16.f16.D")


@dataclass
class Tile(_Tile):
    """A tcgen05.mma product D (128, 64) = A Bᵀ of a (128, 64) and b (64, 64), float16, on the emulated B200.

    Attributes:
        order: one of ORDERS: of commit and wait.
        instruction: the instruction descriptor; None for the right one.
        pair: a CTA pair with cta_group::2, for a (256, 64) and b (128, 64).
        d: float32 (CTAs, 128 lanes, 128 columns) of tensor memory; OLD where nothing was written.
    """

    order: str = "right"
    instruction: int | None = None
    pair: bool = False

    @property
    def _kernel(self) -> Kernel:
        return ptx.module("tcgen05_tile")["tcgen05_f16_pair" if self.pair else "tcgen05_f16"]

    def _launch(self) -> dict[str, Any]:
        ctas = 2 if self.pair else 1
        self.d = torch.zeros(ctas, LANES, COLUMNS)
        halves = zip(self.a.chunk(ctas), self.b.chunk(ctas), strict=True)
        image = torch.from_numpy(np.stack([self._image(a, b) for a, b in halves]))
        word = instruction(len(self.a), len(self.b)) if self.instruction is None else self.instruction
        args = [image, self.d, *self._descriptors(), word, 4, ORDERS.index(self.order)]
        return {"grid": ctas, "block": 128, "cluster": ctas, "args": args}

    def result(self) -> torch.Tensor:
        """D by row and column."""
        return self.d.flatten(0, 1)[: len(self.a), : len(self.b)]


@dataclass
class ScaledTile(_Tile):
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


def coordinates(tile: type[WarpgroupTile] | type[Tile], pair: bool = False) -> Any:
    """A launch whose D is 256 · row + column: what a register or a cell holds says which element it is."""
    rows = 256 if pair else 128 if tile is Tile else 64
    a, b = torch.zeros(rows, 64), torch.zeros(128 if pair else 64, 64)
    a[:, 0], b[:, 0], a[:, 1], b[:, 1] = torch.arange(rows), 256, 1, torch.arange(len(b))
    made = tile(a.half(), b.half())
    return replace(made, pair=True) if pair else made


def random_operands(rows: int = 128, columns: int = 64, k: int = 64, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """A (rows, k) and B (columns, k), float16."""
    random = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(each, k, generator=random).half() for each in (rows, columns))  # type: ignore[return-value]


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
