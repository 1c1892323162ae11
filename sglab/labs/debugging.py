"""Questions of notebook 08: reading a decode kernel of plain CUDA with the debugger."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sglab.emulator import EmulatedDevice
from sglab.emulator.session import Session
from sglab.events.log import READ, SHARED, EventLog
from sglab.gpu import Kernel, Module
from sglab.kernels import ptx
from sglab.kernels.paged_decode.contract import check
from sglab.kernels.paged_decode.cuda import LANES, THREADS, arguments
from sglab.kernels.paged_decode.reference import run as reference

from .question import Question

KV_HEADS, DIM, PAGE_SIZE = 1, 128, 16
WARP = 32


@dataclass
class Decode:
    """A launch of csrc/kernels/portable/paged_decode.cu on fresh tensors: one KV head, pages of 16 in random order.

    Attributes:
        group: query heads that share the KV head: 1, 4 or 8.
        without_barrier: leaves one of the main loop's three __syncthreads out, 0 to 2; None for the kernel as it is.
    """

    seq_lens: tuple[int, ...] = (100, 33)
    group: int = 4
    seed: int = 0
    without_barrier: int | None = None
    q: torch.Tensor = field(init=False)
    k: torch.Tensor = field(init=False)
    v: torch.Tensor = field(init=False)
    out: torch.Tensor = field(init=False)
    lse: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(self.seed)
        counts = [-(-length // PAGE_SIZE) for length in self.seq_lens]
        self.kv_indptr = torch.tensor([0, *counts]).cumsum(0).int()
        pages = int(self.kv_indptr[-1])
        self.kv_indices = torch.randperm(pages, generator=random).int()
        self.last_page_len = torch.tensor([(length - 1) % PAGE_SIZE + 1 for length in self.seq_lens]).int()
        self.q = torch.randn(len(self.seq_lens), self.group * KV_HEADS, DIM, generator=random).half()
        self.k, self.v = (torch.randn(pages, PAGE_SIZE, KV_HEADS, DIM, generator=random).half() for _ in "kv")
        self.out, self.lse = torch.zeros_like(self.q), torch.zeros(self.q.shape[:2])

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a CTA: lanes of a head, heads of the group, rows of keys."""
        return LANES, self.group, THREADS // (LANES * self.group)

    @property
    def kernel(self) -> Kernel:
        entry = f"paged_decode_f16_g{self.group}"
        module = ptx.module("paged_decode")
        return (module if self.without_barrier is None else _without_barrier(entry, self.without_barrier))[entry]

    def session(self, **device: Any) -> Session:
        """The launch, to be stepped; `device` are options of EmulatedDevice."""
        return self.kernel.session(EmulatedDevice("sm_90a", **device), **self._launch())

    def record(self) -> EventLog:
        """Launches and keeps every event."""
        return self.kernel.record(EmulatedDevice("sm_90a"), **self._launch())

    def run(self, **device: Any) -> Any:
        """Launches; returns the report, with findings if sanitize=True."""
        return self.kernel.launch(EmulatedDevice("sm_90a", **device), **self._launch())

    def error(self) -> float:
        """How far `out` is from float64's answer, at worst."""
        exact = torch.empty_like(self.out), torch.empty_like(self.lse)
        reference(check(*self.tensors, None, *exact, True))
        return float((self.out - exact[0]).abs().max())

    def scores(self, request: int, head: int) -> torch.Tensor:
        """q · k, scaled and in base 2 as the kernel has them, float64, of all keys."""
        pages = self.kv_indices[self.kv_indptr[request] : self.kv_indptr[request + 1]].long()
        keys = self.k[pages].flatten(0, 1)[: self.seq_lens[request], 0].double()
        return keys @ self.q[request, head].double() * DIM**-0.5 * np.log2(np.e)

    @property
    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """The operator's first arguments."""
        return self.q, self.k, self.v, self.kv_indptr, self.kv_indices, self.last_page_len

    def _launch(self) -> dict[str, Any]:
        checked = check(*self.tensors, None, self.out.zero_(), self.lse.zero_(), True)
        return {"grid": (len(self.seq_lens), KV_HEADS), "block": self.block, "args": arguments(checked)}


def lane_of(x: int, y: int, z: int) -> Question:
    """Warp and lane of a thread of the CTA."""

    def truth() -> list[int]:
        width, height, _ = Decode().block
        return list(divmod(x + width * (y + height * z), WARP))

    return Question(
        truth=truth,
        because="{truth}: x counts fastest, then y, then z, and 32 threads in that order are a warp.",
        hint="Number the threads: x + 16 · (y + 4 · z). Which 32 belong together?",
        ideas=(
            (list(divmod(z + 2 * (y + 4 * x), WARP)), "x counts fastest, not z."),
            ([(x + 16 * (y + 4 * z)) % WARP, (x + 16 * (y + 4 * z)) // WARP], "The warp comes first."),
            ([y, x], "A warp has 32 threads: two rows of 16, not one."),
        ),
    )


def bytes_of_a_copy() -> Question:
    """Bytes that one cp.async instruction of a warp brings."""
    return Question(
        truth=lambda: int(Decode().record().copies.nbytes[0]),
        because="{truth}: 16 per lane. Two keys of 256 bytes each, for a warp holds two rows y.",
        hint="Each lane copies 16 bytes. The debugger lists copies in flight.",
        ideas=(
            (16, "That is one lane's. An instruction of a warp has 32."),
            (256, "That is one key. A warp has two rows of 16 lanes."),
            (2048, "That is all four warps'."),
        ),
    )


def groups_in_flight() -> Question:
    """cp.async groups of a thread that have not arrived when it starts on the first tile's scores."""

    def truth() -> int:
        session = Decode().session()
        session.run_to(opcode="cp.async.wait_group", warp=0)
        session.step(warp=0)
        return sum(one.kind == "cp.async" and one.warp == 0 for one in session.in_flight())

    return Question(
        truth=truth,
        because="{truth}: four were committed, K and V of two tiles. wait_group 3 lets the newest three be late.",
        hint="How many groups does load() commit for a tile, and how many tiles are loaded before the loop?",
        ideas=(
            (4, "So many were committed. One has to be there: K of the first tile."),
            (2, "K and V of a tile are a group each, and two tiles are on their way."),
            (1, "K and V of a tile are a group each, and two tiles are on their way."),
            (0, "Then the loads would hide nothing: only what is needed next has to have come."),
        ),
    )


def bytes_read_from_k() -> Question:
    """Different bytes of shared memory that a warp's load of K touches."""

    def truth() -> int:
        log = Decode().record()
        read = (log.accesses.space == SHARED) & (log.accesses.kind == READ) & (log.accesses.lanes == WARP)
        return int(log.accesses.span[read][0])

    return Question(
        truth=truth,
        because="{truth}: both heads read the same key. Lanes that read the same word share it, without a conflict.",
        hint="32 lanes read 16 bytes each, but which? Compare the addresses of lanes 0 and 16.",
        ideas=(
            (512, "So it would be if every lane read bytes of its own. But the two heads of a warp need the same key."),
            (16, "That is one lane's."),
        ),
    )


def scores_of_no_key(request: int) -> Question:
    """Scores that the kernel computes for a head of a request and throws away, as −inf."""

    def truth() -> int:
        lesson = Decode()
        _, group, rows = lesson.block
        length = lesson.seq_lens[request]
        return -length % (group * rows)

    return Question(
        truth=truth,
        because="{truth}: a tile is 8 keys, 4 for each row z, and the last one is not full.",
        hint="How many keys does a CTA take per tile, over all its rows z? How many tiles are needed?",
        ideas=(
            (Decode().seq_lens[request] % 8, "So many keys of the request are in the last tile. How many are not?"),
            (-Decode().seq_lens[request] % 4, "Both rows z take keys of the tile: it has 8, not 4."),
            (-Decode().seq_lens[request] % PAGE_SIZE, "That is the rest of the page. A tile has 8 keys."),
        ),
    )


def first_write_of(request: int) -> Question:
    """The position at which a request's output is first written."""

    def truth() -> int:
        lesson = Decode()
        session = lesson.session()
        session.watch(lesson.out[request])
        return session.run().position

    return Question(
        truth=truth,
        because="{truth}: late. Until then the output lives in registers, rescaled again and again.",
        hint="A new session, session.watch(watched.out[1]), then session.run(); or a watch in the debugger.",
    )


def wrong_without() -> Question:
    """Which of the loop's three barriers, left out, gives a wrong result under the fair scheduler."""

    def wrong(number: int) -> bool:
        lesson = Decode(without_barrier=number)
        lesson.run()
        return lesson.error() > 1e-2

    return Question(
        truth=lambda: {number for number in range(3) if wrong(number)},
        because="{truth}, on this schedule and these lengths. All three are needed: a sanitizer reports each.",
        hint="for n in range(3): lesson = lab.Decode(without_barrier=n); lesson.run(); print(n, lesson.error())",
        ideas=(
            ({0}, "That one, and not alone: run each of the three."),
            ({1}, "That one, and not alone: run each of the three."),
            ({2}, "That one, and not alone: run each of the three."),
            (set(), "Run them: one at least shows in the result."),
        ),
    )


def _without_barrier(entry: str, number: int) -> Module:
    """The PTX without one of the first three barriers of an entry: those of its main loop."""
    before, start, body = ptx.text("paged_decode").partition(f".entry {entry}(")
    pieces = body.split("bar.sync", number + 1)
    rest = pieces[number + 1].partition(";")[2]
    kept = "bar.sync".join(pieces[: number + 1])
    return Module(before + start + kept + rest, f"paged_decode without barrier {number}")
