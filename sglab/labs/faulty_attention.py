"""Launches of notebook 25: five faulty kernels, csrc/kernels/lessons/faulty_attention.cu, on batches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch

from sglab.emulator import EmulatedDevice
from sglab.emulator.session import Session
from sglab.gpu import Kernel, KernelError, TensorMap
from sglab.kernels import ptx

from .mend_question import RIGHT

SOURCE = "csrc/kernels/lessons/faulty_attention.cu"
NAMES = ("persistent", "paged_sum", "split_lse", "merge_states", "product")
DIM, PAGE, TILE, CUT = 32, 4, 64, 32
"""Of the small kernels' rows; tokens of paged_sum's pages; product's tile; where merge_states' inputs are cut."""


@dataclass
class Faulty:
    """A launch of one of the five kernels on a batch of fresh tensors.

    Attributes:
        name: persistent, paged_sum, split_lse, merge_states or product.
        seq_lens: rows, tokens, scores or keys of each request; at least 1, for persistent and paged_sum 0.
        kernel: another to launch in its place, such as a mended one.
        shift: what is added to split_lse's scores.
        x: what is attended to, by request.
        out: the kernel's result.
    """

    name: str
    seq_lens: Sequence[int] = (64,)
    seed: int = 0
    kernel: Kernel | None = None
    shift: float = 0.0
    x: list[torch.Tensor] = field(init=False)
    out: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"name: expected one of {', '.join(NAMES)}; got {self.name!r}")
        least = 0 if self.name in ("persistent", "paged_sum") else 1
        if not self.seq_lens or min(self.seq_lens) < least:
            raise ValueError(
                f"seq_lens: {self.name} expects one or more numbers, at least {least} each; got {list(self.seq_lens)}"
            )
        self._random = torch.Generator().manual_seed(self.seed)
        self._launch: dict[str, Any] = getattr(self, f"_{self.name}")()
        self.kernel = self.kernel or ptx.module("faulty_attention")[self.name]

    def run(self, **device: Any) -> Any:
        """Launches; `device` are options of EmulatedDevice. Returns the report, with findings if sanitize=True."""
        self.out.fill_(math.nan)
        return self._kernel.launch(EmulatedDevice("sm_90a", **device), **self._launch)

    def session(self, **device: Any) -> Session:
        """The launch, to be stepped."""
        self.out.fill_(math.nan)
        return self._kernel.session(EmulatedDevice("sm_90a", **device), **self._launch)

    def exact(self) -> torch.Tensor:
        """What it should compute, in float64."""
        made = [each.double() for each in self.x]
        if self.name in ("persistent", "paged_sum"):
            return torch.stack([each.sum(0) for each in made])
        if self.name == "split_lse":
            return torch.stack([torch.logsumexp(each * math.log(2), 0) / math.log(2) for each in made])
        if self.name == "merge_states":
            return torch.stack([torch.softmax(each[:, 0] * math.log(2), 0) @ each[:, 1:] for each in made])
        return torch.stack([each[0] @ each[1].T for each in made])

    def error(self) -> float:
        """How far `out` is from float64's answer, at worst; NaN counts as infinitely far."""
        return float(self._errors().max())

    def wrong(self) -> set[int]:
        """The requests whose result is wrong."""
        return {r for r, error in enumerate(self._errors().flatten(1).amax(1).tolist()) if error > RIGHT}

    def _errors(self) -> torch.Tensor:
        return (self.out.double() - self.exact()).abs().nan_to_num(math.inf).view(len(self.seq_lens), -1)

    @property
    def arguments(self) -> list[Any]:
        """What the kernel is launched with: tensors, which may be written to before `run`, and numbers."""
        return list(self._launch["args"])

    @property
    def _kernel(self) -> Kernel:
        assert self.kernel is not None
        return self.kernel

    def _normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=self._random)

    @property
    def _indptr(self) -> torch.Tensor:
        return torch.tensor([0, *self.seq_lens]).cumsum(0).int()

    def _persistent(self) -> dict[str, Any]:
        v = self._normal(max(sum(self.seq_lens), 1), DIM)
        self.x = [v[first:last] for first, last in pairwise(self._indptr.tolist())]
        self.out = torch.empty(len(self.seq_lens), DIM)
        return {"grid": 1, "block": 64, "args": [v, self._indptr, self.out, len(self.seq_lens)]}

    def _paged_sum(self) -> dict[str, Any]:
        width = max(-(-max(self.seq_lens) // PAGE), 1)
        pages = len(self.seq_lens) * width
        kv = self._normal(pages, PAGE, DIM)
        table = torch.randperm(pages, generator=self._random).int().view(-1, width)
        self.x = [kv[row.long()].flatten(0, 1)[:n] for row, n in zip(table, self.seq_lens, strict=True)]
        self.out = torch.empty(len(self.seq_lens), DIM)
        lens = torch.tensor(self.seq_lens).int()
        return {"grid": 1, "block": 32, "args": [kv, table, lens, self.out, len(self.seq_lens), width]}

    def _split_lse(self) -> dict[str, Any]:
        s = self._normal(sum(self.seq_lens)) * 3 + self.shift
        self.x = [s[first:last] for first, last in pairwise(self._indptr.tolist())]
        self.out = torch.empty(len(self.seq_lens))
        return {"grid": len(self.seq_lens), "block": 128, "args": [s, self._indptr, self.out]}

    def _merge_states(self) -> dict[str, Any]:
        """x: of each key its score, in base 2, and its value."""
        self.x = [self._normal(n, 1 + DIM) for n in self.seq_lens]
        o, lse = torch.zeros(len(self.x), 2, DIM), torch.full((len(self.x), 2), -math.inf)
        for r, keys in enumerate(self.x):
            for split, part in enumerate((keys[:CUT].double(), keys[CUT:].double())):
                if len(part):
                    weights = torch.exp2(part[:, 0])
                    o[r, split] = (weights / weights.sum()) @ part[:, 1:]
                    lse[r, split] = weights.sum().log2()
        self.out = torch.empty(len(self.x), DIM)
        return {"grid": len(self.x), "block": 32, "args": [o, lse, self.out]}

    def _product(self) -> dict[str, Any]:
        keys = -(-max(self.seq_lens) // TILE) * TILE
        p, v = (torch.zeros(len(self.seq_lens), TILE, keys) for _ in range(2))
        for r, n in enumerate(self.seq_lens):
            p[r, :, :n] = torch.softmax(self._normal(TILE, n), 1)
            v[r, :, :n] = self._normal(TILE, n)
        self.x = list(torch.stack([p, v], 1).half())
        halves = [each.half().flatten(0, 1).contiguous() for each in (p, v)]
        self.out = torch.empty(len(self.seq_lens), TILE, TILE)
        maps = [TensorMap(each, (TILE, TILE), swizzle=128) for each in halves]
        return {"grid": len(self.seq_lens), "block": 160, "args": [*maps, torch.tensor(self.seq_lens).int(), self.out]}


def outcome(name: str, seq_lens: Sequence[int], scheduler: str = "fair", device_seed: int = 0) -> str:
    """What becomes of a launch under a scheduler with a seed, in a word: the error, at worst, or "hangs"."""
    launch = Faulty(name, seq_lens)
    try:
        launch.run(scheduler=scheduler, seed=device_seed)
    except KernelError as error:
        return "hangs" if hung(error) else type(error).__name__
    return f"{launch.error():.1e}"


def hung(error: KernelError) -> bool:
    """Whether a launch failed because no warp could go on."""
    return str(error).startswith("deadlock")
