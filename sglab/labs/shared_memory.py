"""Questions of notebook 07: groups of cp.async, shared memory's size, banks and swizzles, on real launches."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from sglab import gpu
from sglab.emulator.bank_conflicts import InstructionBanks, bank_conflicts, count_passes
from sglab.emulator.session import Session
from sglab.emulator.state import lanes
from sglab.events.async_groups import AsyncPipeline, async_groups
from sglab.events.tile import box_offsets
from sglab.kernels import batch_decode_with_paged_kv_cache, ptx
from sglab.planning import shared_storage_qkvo

from .code_question import CodeQuestion
from .mla_sm100 import KV_MAP
from .question import Question

DIM, ROWS, THREADS = 128, 16, 128
SCALE = DIM**-0.5
WINDOW = 0xFFFFFF
"""Bits of a shared address that are the offset in the CTA's window."""


@dataclass
class PagedDecode:
    """A launch of `batch_decode_with_paged_kv_cache`: one request, a KV head for four query heads, pages of 16."""

    tokens: int = 60
    seed: int = 0
    capture: gpu.Capture = field(init=False, repr=False)

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(self.seed)
        pages = -(-self.tokens // 16)
        q = torch.randn(1, 4, DIM, generator=random).half()
        k, v = (torch.randn(pages, 16, 1, DIM, generator=random).half() for _ in range(2))
        indptr, indices = torch.tensor([0, pages]).int(), torch.randperm(pages, generator=random).int()
        last = torch.tensor([(self.tokens - 1) % 16 + 1]).int()
        self.capture = gpu.capture(
            lambda: batch_decode_with_paged_kv_cache(q, k, v, indptr, indices, last, implementation="cuda")
        )

    def session(self) -> Session:
        """The launch, to be stepped."""
        return self.capture.session()

    def groups(self, warp: int = 0) -> AsyncPipeline:
        """What the threads of a warp counted."""
        return async_groups(self.session().log)[warp]


@dataclass
class Prefill:
    """A launch of csrc/kernels/lessons/shared_storage.cu: 16 query rows of 128 dims, after FlashInfer's prefill.

    Attributes:
        variant: "permuted", with FlashInfer's permuted shared memory, or "linear", without.
    """

    variant: str = "permuted"
    keys: int = 100
    seed: int = 0
    q: torch.Tensor = field(init=False, repr=False)
    k: torch.Tensor = field(init=False, repr=False)
    v: torch.Tensor = field(init=False, repr=False)
    out: torch.Tensor = field(init=False, repr=False)
    lse: torch.Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        random = torch.Generator().manual_seed(self.seed)
        self.q = torch.randn(ROWS, DIM, generator=random).half()
        self.k, self.v = (torch.randn(self.keys, DIM, generator=random).half() for _ in range(2))
        self.out, self.lse = torch.full((ROWS, DIM), math.nan).half(), torch.full((ROWS,), math.nan)

    def session(self) -> Session:
        """The launch, to be stepped."""
        return self._kernel.session(gpu.EmulatedDevice("sm_80"), **self._arguments)

    def run(self, **device: Any) -> Any:
        """Launches; `device` are options of EmulatedDevice. Returns the report."""
        return self._kernel.launch(gpu.EmulatedDevice("sm_80", **device), **self._arguments)

    @property
    def _kernel(self) -> gpu.Kernel:
        return ptx.module("shared_storage")[f"shared_storage_{self.variant}"]

    @property
    def _arguments(self) -> dict[str, Any]:
        tensors = [self.q, self.k, self.v, self.out, self.lse]
        return {"grid": 1, "block": THREADS, "args": [*tensors, self.keys, SCALE * math.log2(math.e)]}


def bank_table(session: Session) -> str:
    """Passes through the banks of a launch, by source line: as it ran, at least, and permuted in rows of 256 bytes."""
    lines = [f"{'source':24}{'instruction':34}{'passes':>8}{'at least':>10}{'chunk ^ row % 8':>17}"]
    for name, parts in _by_line(session).items():
        totals = [sum(one.passes for one in parts), sum(one.least for one in parts)]
        totals.append(sum(one.permuted["256B_rows"] for one in parts))
        opcode = parts[0].instruction.opcode.replace(".sync.aligned", "")
        lines.append(f"{name:24}{opcode:34}{totals[0]:>8,}{totals[1]:>10,}{totals[2]:>17,}")
    return "\n".join(lines)


def _by_line(session: Session) -> dict[str, list[InstructionBanks]]:
    found: dict[str, list[InstructionBanks]] = {}
    for one in bank_conflicts(session):
        file, line = one.instruction.source or ("PTX", one.instruction.ptx_line)
        found.setdefault(f"{file.rpartition('/')[2]}:{line}", []).append(one)
    return found


def in_flight_at_the_first_wait(paged: PagedDecode) -> Question:
    """Numbers of the groups that may still be under way when the first wait_group has returned."""
    return Question(
        truth=lambda: paged.groups().waits[0].in_flight,
        because="{truth}: wait_group 3 leaves the three latest alone. Only group 0 must be there: K of the first tile.",
        hint="Four groups are closed by then, numbered from 0. wait_group N lets the N latest be in flight.",
        ideas=(
            ([0, 1, 2], "The three *latest* may be late. The oldest must be there."),
            ([0], "That is the one that must be there: K of the first tile."),
            ([0, 1, 2, 3], "Then it would not wait for anything."),
            (3, "So many. Which are they?"),
        ),
    )


def bytes_of_a_group(paged: PagedDecode) -> Question:
    """Bytes that one thread's group brings."""

    def truth() -> int:
        pipeline = paged.groups()
        return pipeline.groups[0].nbytes // len(lanes(pipeline.lanes))

    return Question(
        truth=truth,
        because="{truth}: one cp.async of 16 bytes. The warp's 32 threads bring 512 bytes, and count one group each.",
        hint="The widget's bytes are of all 32 threads of the warp together.",
        ideas=(
            (512, "That is all 32 threads of the warp. Groups are counted by each thread for itself."),
            (8, "So many numbers. A half has two bytes."),
        ),
    )


def wait_for_stages(stages: int) -> Question:
    """N of the wait_group before the first scores, if there were so many stages."""

    def truth() -> int:
        return 2 * stages - 1  # of 2 · stages groups that are closed, the oldest is K of the tile

    return Question(
        truth=truth,
        because="{truth}: K and V of every stage are closed, 2 per stage, and only the oldest is needed.",
        hint="How many groups are closed before the loop, with K and V a group each? All but one may be in flight.",
        ideas=(
            (2 * stages, "So many groups are closed: then it would wait for nothing."),
            (stages - 1, "K and V of a stage are a group each."),
            (2 * stages - 2, "Only K of the first tile is needed for the scores; its V may still be on its way."),
        ),
    )


def union_bytes() -> Question:
    """What SharedStorageQKVO takes for 16 rows of Q, 64 keys, head dim 128 and four warps that share the keys."""
    storage = shared_storage_qkvo(ROWS, 64, DIM, DIM, 4)
    return Question(
        truth=lambda: storage.total,
        because=(
            f"{{truth:,}}: Q {storage.q_smem:,} + K {storage.k_smem:,} + V {storage.v_smem:,}. The exchange of states, "
            f"{storage.cta_sync_o_smem + storage.cta_sync_md_smem:,}, is in the same bytes, later."
        ),
        hint="A union takes its largest face. Two bytes per half: 16 × 128, 64 × 128 and 64 × 128 of them.",
        ideas=(
            (storage.total + 33_280, "A union: the exchange comes later, in the same bytes."),
            (33_280, "A union is as large as its largest face."),
            (storage.total // 2, "So many numbers. A half has two bytes."),
        ),
    )


def exchange_bytes() -> Question:
    """Bytes of cta_sync_o_smem if four warps shared the keys of a tile of 128 query rows."""
    return Question(
        truth=lambda: shared_storage_qkvo(128, 64, DIM, DIM, 4).cta_sync_o_smem,
        because="{truth:,}, 256 KiB, and an SM has 228. So four warps share keys only where a tile has 16 rows.",
        hint="warps × rows × head dim × 4 bytes: o is exchanged in float32.",
        ideas=(
            (4 * 128 * DIM * 2, "O is exchanged in float32: four bytes each."),
            (128 * DIM * 4, "Each of the four warps has an O of all 128 rows."),
        ),
    )


def passes_of_one_ldmatrix(variant: str) -> Question:
    """Passes of one ldmatrix.x4 on K."""

    def truth() -> int:
        one = next(one for one in bank_conflicts(Prefill(variant).session()) if one.reads)
        return one.passes // one.executions

    because = {
        "linear": "{truth}: in each of four phases eight rows, 256 bytes apart, need the same four banks.",
        "permuted": "{truth}: one per phase. Eight rows' chunks are in eight different places.",
    }
    return Question(
        truth=truth,
        because=because[variant],
        hint="Divide 'passes' by 'times' in the tab 'banks', or press the instruction and read what follows.",
        ideas=(
            (
                8,
                "Eight for each matrix of eight rows in the same banks; .x4 loads four of them."
                if variant == "linear"
                else "Two per matrix? Eight chunks of a column now lie in eight different places.",
            ),
            (1, "One instruction, but four matrices: each takes at least a pass."),
            (4 if variant == "linear" else 32, "So many it takes with the other layout."),
            (16, "Count for one matrix of eight rows first, then four times that."),
        ),
    )


def place_of_a_chunk(row: int, chunk: int) -> Question:
    """The place in its row where a chunk is, permuted."""
    return Question(
        truth=lambda: chunk ^ row % 8,
        because=f"{{truth}} = {chunk} ^ ({row} mod 8).",
        hint="chunk ^ (row mod 8): the exclusive or of two small numbers; write them in binary.",
        ideas=(
            (chunk, "That is its place in plain rows."),
            (chunk ^ row, "The pattern repeats after eight rows: row mod 8."),
        ),
    )


def line_that_still_conflicts() -> Question:
    """The source line of the permuted kernel whose accesses lose most passes to conflicts."""

    def truth() -> int:
        found = _by_line(Prefill("permuted").session())
        worst = max(found, key=lambda name: sum(one.passes - one.least for one in found[name]))
        return int(worst.rpartition(":")[2])

    return Question(
        truth=truth,
        because="{truth}: the states that warps exchange go to plain rows of 512 bytes. It happens once per launch.",
        hint="print(lab.bank_table(lab.Prefill('permuted').session())): where do they lose most?",
    )


def bytes_of_q(session: Session) -> Question:
    """Bytes of shared memory that TMA fills with Q in CTA 0 of an SM100 MLA decode."""

    def truth() -> int:
        copies = session.log.copies
        mine = (session.log.cta[copies.event] == 0) & (copies.map < KV_MAP) & (copies.map >= 0)
        return int(copies.nbytes[mine].sum())

    return Question(
        truth=truth,
        because="{truth:,}: 64 heads × 576 columns × 2 bytes, as nine boxes of 64 columns.",
        hint="Each box has 64 rows of 64 halves. The widget's list of tiles has those of map 0 and of map 1.",
        ideas=(
            (147_456, "That is the whole pair's: each CTA has 64 of the 128 heads."),
            (65_536, "The rotary columns come by a box of their own: 576, not 512."),
            (36_864, "So many numbers. A half has two bytes."),
            (8192, "That is one box. Q has nine."),
        ),
    )


def address_of_an_element(session: Session, row: int, column: int) -> Question:
    """Where an element of the first box of Q is in the shared memory of CTA 0 of an SM100 MLA decode."""

    def truth() -> int:
        copies = session.log.copies
        first = int(np.flatnonzero((session.log.cta[copies.event] == 0) & (copies.map == 0))[0])
        start = int(copies.shared[first]) & WINDOW
        return int(box_offsets(session.log.maps[0], start)[0, row, column])

    chunk, place = column // 8, column // 8 ^ row % 8
    return Question(
        truth=truth,
        because=f"{{truth:#x}} = 0x400 + {row} × 128 + {place} × 16 + {column % 8} × 2: "
        f"chunk {chunk} of row {row} is at place {chunk} ^ ({row} mod 8) = {place}.",
        hint=f"Open the first tile and write {row}, {column} in the field beside 'values'. 0x… will do for an answer.",
        ideas=(
            (
                0x400 + row * 128 + column * 2,
                "So it would be in plain rows. The chunk of 16 bytes is moved by the swizzle.",
            ),
            (
                row * 128 + place * 16 + column % 8 * 2,
                "That counts from the beginning of the box. Where does the box begin?",
            ),
        ),
    )


def passes_of_an_access() -> CodeQuestion:
    """The exercise of writing passes(addresses): of an access of 4 bytes a lane."""
    lanes = torch.arange(32)

    def cases(random: torch.Generator) -> list[list[Any]]:
        words = torch.randint(64, (3, 32), generator=random) * torch.tensor([[1], [4], [37]])
        rows = torch.randperm(32, generator=random)
        regular = [lanes, 2 * lanes, 32 * lanes, 0 * lanes, lanes // 8, 33 * rows, 32 * (lanes // 8) + lanes % 8]
        return [[(0x400 + 4 * each).tolist()] for each in (*regular, *words)]

    def busiest(addresses: list[int], bank: Callable[[int], int], distinct: bool = True) -> int:
        taken = [bank(address) for address in (set(addresses) if distinct else addresses)]
        return max(map(taken.count, taken))

    return CodeQuestion(
        function="passes",
        cases=cases,
        truth=lambda addresses: int(count_passes(np.array([addresses]), np.array([2**32 - 1]), 4)[0][0]),
        because="The tab 'banks' counts so, from the addresses in the lanes' registers.",
        ideas=(
            (
                lambda a: busiest(a, lambda x: x // 4 % 32, distinct=False),
                "Lanes that want the same word share it: count a bank's different words.",
            ),
            (
                lambda a: busiest(a, lambda x: x % 32),
                "A bank is 4 bytes wide: it is the word's number that counts, address // 4.",
            ),
            (lambda a: busiest(a, lambda x: x // 4 // 32), "Word i is in bank i mod 32, not in i // 32."),
            (
                lambda a: len({x // 4 % 32 for x in a}),
                "That is how many banks work. The pass count is how often the busiest one does.",
            ),
            (lambda a: -(-len(set(a)) // 32), "So it would be if the words were spread evenly over the banks."),
        ),
    )
