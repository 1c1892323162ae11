"""An exercise of notebook 14: which register of which lane holds which element of A."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .question import Verdict
from .tensor_tiles import gathered, mma, spread

B, C = "mma.m16n8k16.f16.B", "mma.m16n8k16.f16.C"
Pack = Callable[[torch.Tensor], torch.Tensor]
Where = Callable[[int, int], tuple[int, int, int]]


def small_product(pack: Pack, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A · B by one mma.sync on registers that `pack` fills; a (16, 16), b (16, 8), float16."""
    registers = torch.as_tensor(pack(a))
    return gathered(mma(registers, spread(b, B)), C)


@dataclass(frozen=True)
class PackQuestion:
    """A function to write, pack(a) -> (32, 4, 2): what each register of each lane holds of A.

    It is judged by the product that the tensor core makes of these registers.

    Attributes:
        ideas: where known wrong functions put an element, each with what its author gets to read.
    """

    ideas: tuple[tuple[Where, str], ...]

    def check(self, given: Any = ...) -> Verdict:
        """Judge a function; `...` means that there is none yet."""
        if given is ...:
            return Verdict(None, "Write pack, then replace the ... by its name and run the cell again.")
        if not callable(given):
            return Verdict(False, f"The answer is the function itself, pack; this is of type {type(given).__name__}.")
        for _ in range(3):
            a, b = (torch.randint(-4, 5, shape).half() for shape in ((16, 16), (16, 8)))
            try:
                d = small_product(given, a, b)
            except NotImplementedError:
                return Verdict(None, "pack is still to be written.")
            except Exception as error:  # the reader's code: whatever it raises is what to tell
                return Verdict(False, f"{type(error).__name__}: {error}")
            right = d == a.double() @ b.double()
            if not right.all():
                told = [text for where, text in self.ideas if torch.equal(d, small_product(_packer(where), a, b))]
                return Verdict(False, " ".join([f"{int(right.sum())} of D's 128 elements are right.", *told]))
        return Verdict(True, "The tensor core multiplied your registers: three fresh random products, all exact.")


def _packer(where: Where) -> Pack:
    def pack(a: torch.Tensor) -> torch.Tensor:
        out = torch.zeros(32, 4, 2, dtype=torch.float16)
        for row in range(16):
            for column in range(16):
                out[where(row, column)] = a[row, column]
        return out

    return pack


def packed_fragment() -> PackQuestion:
    """To write: the fragment of A (16, 16) of mma.m16n8k16."""

    def lane(row: int, column: int) -> int:
        return row % 8 * 4 + column % 8 // 2

    return PackQuestion(
        (
            (
                lambda r, c: (lane(r, c), 2 * (r // 8) + c // 8, c % 2),
                "Registers 1 and 2 are exchanged: register 1 is eight rows further down, register 2 eight columns on.",
            ),
            (
                lambda r, c: (2 * r + c // 8, c % 8 // 2, c % 2),
                "This deals A out row by row, eight numbers to a lane. Press row 0 in the Layout widget.",
            ),
            (
                lambda r, c: (lane(r, c), r // 8 + 2 * (c // 8), 1 - c % 2),
                "The halves of each register are exchanged: the lower 16 bits have the even column.",
            ),
        )
    )
