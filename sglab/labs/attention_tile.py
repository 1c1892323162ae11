"""A launch that notebooks 14 and 15 share: attention of a prompt on an emulated B200, one step after the other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from sglab.emulator import EmulatedDevice
from sglab.emulator.session import Session
from sglab.events.log import EventLog
from sglab.gpu import Kernel
from sglab.kernels import ptx

DIM, QUERIES, KEYS = 64, 128, 64
"""Of the kernel: the head's dims, queries of a CTA, keys of a tile."""
S_COLUMNS, P_COLUMNS, O_COLUMNS = range(64), range(32), range(64, 128)
"""Of tensor memory."""
POLYNOMIAL = (0, 4, 16)


@dataclass
class AttentionTile:
    """A launch of csrc/kernels/lessons/attention_tile.cu on random tensors.

    Attributes:
        queries, keys: the queries are the last of the keys' positions.
        causal: a query sees no later key.
        threshold: O is corrected when a row's maximum has grown by more than so many powers of two.
        polynomial: of 16 exponentials, so many are done by a polynomial: one of POLYNOMIAL.
        spread: what random scores are multiplied with.
        rising: what is added to the score of each key, times its number / 64, so that the maximum grows.
        q, k, v: float16 (queries or keys, 64); may be changed before a run.
        o: float32 (queries, 64), what it writes.
        rescaled: int32 (CTAs, 4 warps), how often a warp corrected O.
    """

    queries: int = 128
    keys: int = 64
    causal: bool = False
    threshold: float = 0.0
    polynomial: int = 0
    spread: float = 1.0
    rising: float = 0.0
    seed: int = 0
    q: torch.Tensor = field(init=False)
    k: torch.Tensor = field(init=False)
    v: torch.Tensor = field(init=False)
    o: torch.Tensor = field(init=False)
    rescaled: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        if self.polynomial not in POLYNOMIAL:
            raise ValueError(f"polynomial: expected one of {POLYNOMIAL}, got {self.polynomial}; choose one of these")
        if self.causal and self.queries > self.keys:
            raise ValueError(f"queries: expected at most keys ({self.keys}) with a causal mask, got {self.queries}")
        random = torch.Generator().manual_seed(self.seed)
        shapes = ((self.queries, DIM), (self.keys, DIM), (self.keys, DIM))
        self.q, self.k, self.v = (torch.randn(shape, generator=random) for shape in shapes)
        self.q *= self.spread
        if self.rising:  # one dim is 1 in every query; its keys rise
            self.q[:, 0] = 1.0
            self.k[:, 0] = torch.arange(self.keys) / KEYS * self.rising * DIM**0.5 / math.log2(math.e)
        self.q, self.k, self.v = self.q.half(), self.k.half(), self.v.half()
        self.o, self.rescaled = torch.zeros(self.queries, DIM), torch.zeros(self.ctas, 4, dtype=torch.int32)

    @property
    def ctas(self) -> int:
        return -(-self.queries // QUERIES)

    def run(self, **device: Any) -> Any:
        """Launches; `device` are options of EmulatedDevice. Returns the report, with findings if sanitize=True."""
        return self._kernel.launch(EmulatedDevice("sm_100a", **device), **self._launch())

    def record(self, **device: Any) -> EventLog:
        """Launches and keeps every event."""
        return self._kernel.record(EmulatedDevice("sm_100a", **device), **self._launch())

    def session(self, **device: Any) -> Session:
        """The launch, to be stepped."""
        return self._kernel.session(EmulatedDevice("sm_100a", **device), **self._launch())

    def scores(self) -> torch.Tensor:
        """Scaled scores, float64 (queries, keys), −inf where the mask hides a key."""
        scores = self.q.double() @ self.k.double().T * DIM**-0.5
        positions = torch.arange(self.queries)[:, None] + self.keys - self.queries
        return scores.masked_fill((torch.arange(self.keys) > positions) & self.causal, -math.inf)

    def exact(self) -> torch.Tensor:
        """O in float64."""
        return torch.softmax(self.scores(), -1) @ self.v.double()

    def error(self) -> float:
        """Largest difference of `o` from float64; NaN counts as infinitely far."""
        return float((self.o - self.exact()).abs().nan_to_num(math.inf).max())

    @property
    def _kernel(self) -> Kernel:
        return ptx.module("attention_tile")[f"attention_tile_{self.polynomial}"]

    def _launch(self) -> dict[str, Any]:
        self.o.fill_(math.nan)
        self.rescaled.zero_()
        tensors = (self.q, self.k, self.v, self.o, self.rescaled)
        scale = DIM**-0.5 * math.log2(math.e)
        args = [*tensors, self.queries, self.keys, scale, float(self.threshold), int(self.causal)]
        return {"grid": self.ctas, "block": QUERIES, "args": args}
