"""What each GPU architecture allows, and which PTX runs on which.

Sources: CUDA C++ Programming Guide, appendix "Compute Capabilities"; PTX ISA, ".target".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sglab.gpu.errors import LaunchError


@dataclass(frozen=True)
class Limits:
    """Limits of one compute capability: of a launch, and of what an SM holds at once; shared memory in bytes."""

    smem: int  # per CTA, static and dynamic together
    cluster: int  # largest cluster in CTAs, 1 where clusters do not exist
    sms: int  # of the product named first in `products`
    products: str
    sm_threads: int = 2048
    sm_ctas: int = 32
    sm_smem: int = 233_472


_LIMITS: dict[int, Limits] = {
    70: Limits(98_304, 1, 80, "V100", sm_smem=98_304),
    75: Limits(65_536, 1, 40, "T4", 1024, 16, 65_536),
    80: Limits(166_912, 1, 108, "A100", sm_smem=167_936),
    86: Limits(101_376, 1, 84, "RTX 3090, A40", 1536, 16, 102_400),
    89: Limits(101_376, 1, 142, "L40, RTX 4090", 1536, 24, 102_400),
    90: Limits(232_448, 16, 132, "H100, H200"),
    100: Limits(232_448, 16, 148, "B200"),
    103: Limits(232_448, 16, 148, "B300"),
    120: Limits(101_376, 8, 188, "RTX PRO 6000", 1536, 24, 102_400),
}
H100_SMS, B200_SMS = _LIMITS[90].sms, _LIMITS[100].sms
"""Streaming multiprocessors of the two products that plans are made for where no GPU says."""
PLAIN_STATIC_SMEM = 49_152
"""Bytes of variables in shared memory that ptxas allows for a target without a suffix."""
MAX_THREADS = 1024
MAX_GRID = (2**31 - 1, 65_535, 65_535)
MAX_BLOCK = (1024, 1024, 64)


@dataclass(frozen=True)
class Architecture:
    """A PTX target or a device: sm_90, sm_90a (one capability's own instructions), sm_100f (one family's)."""

    capability: int
    suffix: str = ""

    @classmethod
    def parse(cls, text: str) -> Architecture:
        found = re.fullmatch(r"sm_(\d{2,3})([af]?)", text) if isinstance(text, str) else None
        if not found or int(found[1]) not in _LIMITS:
            known = ", ".join(f"sm_{number} ({limits.products})" for number, limits in _LIMITS.items())
            raise LaunchError(f"arch must be one of {known}, with or without a suffix; got {text!r}")
        return cls(int(found[1]), found[2])

    @property
    def limits(self) -> Limits:
        return _LIMITS[self.capability]

    def runs(self, target: str) -> bool:
        """Whether PTX of this .target runs on a device of this capability.

        sm_90a runs on capability 9.0 only, sm_100f on 10.x from 10.0 on, a plain target on everything not older.
        """
        found = re.match(r"sm_(\d+)([af]?)$", target)
        if not found:
            return False
        number, suffix = int(found[1]), found[2]
        if suffix == "a":
            return number == self.capability
        if suffix == "f":
            return number <= self.capability and number // 10 == self.capability // 10
        return number <= self.capability

    def __str__(self) -> str:
        return f"sm_{self.capability}{self.suffix}"
