"""Division of uint32 by a divisor known in advance, with a multiply and a shift.

Source: FlashInfer 0.7.2 `include/flashinfer/fastdiv.cuh` (`uint_fastdiv`), which wraps
`cuda::fast_mod_div<uint32_t>` of CCCL (`cuda/__cmath/fast_modulo_division.h`). Attention kernels divide by the page
size and the GQA group size this way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from sglab.planning import check

UInt32Array = NDArray[np.uint32]
UINT32_MAX = 2**32 - 1


@dataclass(frozen=True)
class UintFastDiv:
    """The precomputed divisor.

    For a power of two, `multiplier` is 0 and the quotient is `n >> shift`. Otherwise the quotient is
    `mul_hi(n + add, multiplier) >> shift`, where `add` (0 or 1) is skipped for n = 2**32 - 1.
    """

    divisor: int
    multiplier: int
    shift: int
    add: int

    @classmethod
    def of(cls, divisor: int) -> UintFastDiv:
        divisor = check.integer("divisor", divisor, minimum=1, maximum=UINT32_MAX)
        shift = divisor.bit_length() - 1
        if divisor == 1 << shift:
            return cls(divisor, multiplier=0, shift=shift, add=0)
        quotient, remainder = divmod(1 << (32 + shift), divisor)
        round_up = remainder >= divisor - (1 << shift)
        multiplier = (quotient + round_up) & UINT32_MAX  # the C++ keeps 32 bits
        return cls(divisor, multiplier, shift, add=int(not round_up))

    @overload
    def divide(self, n: int) -> int: ...
    @overload
    def divide(self, n: UInt32Array) -> UInt32Array: ...
    def divide(self, n: int | UInt32Array) -> int | UInt32Array:
        """Quotient of n, a uint32 or an array of them, by the route the GPU takes."""
        wide = np.asarray(n, dtype=np.uint64)
        if np.any(wide > UINT32_MAX):
            raise check.fail("n", f"values up to {UINT32_MAX}", f"{wide.max()}", "divide 64-bit values with // instead")
        if self.multiplier == 0:
            quotient = wide >> np.uint64(self.shift)
        else:
            step = np.where(wide == UINT32_MAX, np.uint64(0), np.uint64(self.add))
            quotient = ((wide + step) * np.uint64(self.multiplier)) >> np.uint64(32 + self.shift)
        return quotient.astype(np.uint32) if isinstance(n, np.ndarray) else int(quotient)

    @overload
    def divmod(self, n: int) -> tuple[int, int]: ...
    @overload
    def divmod(self, n: UInt32Array) -> tuple[UInt32Array, UInt32Array]: ...
    def divmod(self, n: int | UInt32Array) -> tuple[int, int] | tuple[UInt32Array, UInt32Array]:
        """(quotient, remainder) of n."""
        if isinstance(n, np.ndarray):
            quotients = self.divide(n)
            return quotients, (n - quotients * np.uint32(self.divisor)).astype(np.uint32)
        quotient = self.divide(n)
        return quotient, n - quotient * self.divisor
