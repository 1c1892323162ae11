"""Launches of notebook 14: a product by mma.sync, wgmma and tcgen05.mma, of operands that lie where a caller says."""

from __future__ import annotations

from dataclasses import dataclass, field
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
from sglab.layouts.tiles import SPANS

IMAGE, A_AT, B_AT = 32768, 0, 16384
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
    ptx.module("mma_fragments")["mma_m16n8k16"].launch(
        device or EmulatedDevice("sm_80"), grid=1, block=32, args=[*words, d]
    )
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
        matrix: (rows, bytes or halves).
        swizzle: whose pattern is as long as a row; or "plain": rows of 128 bytes, one after the other.
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
class SharedTile:
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
class WarpgroupTile(SharedTile):
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
class Tile(SharedTile):
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


def coordinates(rows: int, columns: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    """A (rows, 64) and B (columns, 64) whose product is 256 · row + column: an element says which one it is."""
    a, b = torch.zeros(rows, 64), torch.zeros(columns, 64)
    a[:, 0], b[:, 0], a[:, 1], b[:, 1] = torch.arange(rows), 256, 1, torch.arange(columns)
    return a.half(), b.half()


def random_operands(
    rows: int = 128, columns: int = 64, k: int = 64, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """A (rows, k) and B (columns, k), float16."""
    random = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(each, k, generator=random).half() for each in (rows, columns))  # type: ignore[return-value]
