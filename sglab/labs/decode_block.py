"""Which thread of a FlashInfer-style decode does what: (x, y, z), its keys and its dims, held against a launch."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from sglab import gpu
from sglab.emulator.session import Session
from sglab.events.log import COPY_KINDS
from sglab.kernels import batch_decode_with_paged_kv_cache

from .question import Question

DIM, PAGE = 128, 16
VECTOR_BYTES = 16
"""What one load brings: the widest that a thread has."""


@dataclass(frozen=True)
class Mapping:
    """FlashInfer's block of threads: vec elements per load, bdx lanes per head, bdy heads, bdz rows of keys."""

    vec: int
    bdx: int
    bdy: int
    bdz: int

    @classmethod
    def of(cls, head_dim: int, group: int, itemsize: int = 2) -> Mapping:
        """group: query heads per KV head. After FlashInfer's BatchDecodeWithPagedKVCacheDispatched."""
        vec = max(VECTOR_BYTES // itemsize, head_dim // 32)
        bdx = head_dim // vec
        return cls(vec, bdx, group, max(128, bdx * group) // (bdx * group))

    def place(self, thread: int) -> tuple[int, int, int]:
        """(x, y, z) of a thread, x fastest."""
        return thread % self.bdx, thread // self.bdx % self.bdy, thread // (self.bdx * self.bdy)


class DecodeBlock:
    """A launch of `batch_decode_with_paged_kv_cache`: one request on scattered pages of 16 tokens.

    Args:
        group: query heads of 128 dims that share the KV head: 1, 4 or 8.
    """

    def __init__(self, group: int = 4, tokens: int = 60, seed: int = 0) -> None:
        random = torch.Generator().manual_seed(seed)
        pages = -(-tokens // PAGE)
        self.tokens, self.mapping = tokens, Mapping.of(DIM, group)
        self.pages = torch.randperm(pages, generator=random).int()
        q = torch.randn(1, group, DIM, generator=random).half()
        self._k, v = (torch.randn(pages, PAGE, 1, DIM, generator=random).half() for _ in range(2))
        indptr, last = torch.tensor([0, pages]).int(), torch.tensor([(tokens - 1) % PAGE + 1]).int()
        self.capture = gpu.capture(
            lambda: batch_decode_with_paged_kv_cache(q, self._k, v, indptr, self.pages, last, implementation="cuda")
        )

    def session(self) -> Session:
        """The launch, to be stepped."""
        return self.capture.session()

    @property
    def keys_per_thread(self) -> int:
        """Of a tile: with one query head per KV head there are too few threads for a key each."""
        return 4 if self.mapping.bdy == 1 else 1

    def stated(self, thread: int) -> tuple[int, int]:
        """By the mapping: the token of the first key that a thread copies, and the first of its dims."""
        x, y, z = self.mapping.place(thread)
        return (z * self.mapping.bdy + y) * self.keys_per_thread, x * self.mapping.vec

    def recorded(self) -> FirstCopies:
        """By the launch: the same of every thread, from the addresses that its first cp.async had in its registers."""
        session = self.session()
        copies = session.log.copies
        lowest = dict(zip(copies.event.tolist(), copies.address.tolist(), strict=True))
        found = FirstCopies(*(np.full(128, -1, np.int64) for _ in range(2)))
        for event in copies.event[copies.kind == COPY_KINDS.index("cp.async")].tolist():
            session.seek(event)
            place = session.next
            assert place is not None
            threads = 32 * place.warp + np.arange(32)
            if found.token[threads[0]] >= 0:
                continue  # not its first
            address = self._addresses(session, place.warp, place.instruction.text)
            assert int(address.min()) == lowest[event]  # the event log keeps the lowest of a warp
            element = (address.astype(np.int64) - self._k.data_ptr()) // self._k.element_size()
            slot, found.dim[threads] = np.divmod(element, DIM)
            number = np.argsort(self.pages.numpy())  # of each page, within the request
            found.token[threads] = number[slot // PAGE] * PAGE + slot % PAGE
        return found

    @staticmethod
    def _addresses(session: Session, warp: int, text: str) -> npt.NDArray[np.uint64]:
        match = re.search(r"\],\s*\[\s*(%rd\d+)\s*(?:\+\s*(-?\d+))?\s*\]", text)
        assert match, text
        values = session.registers(warp)[match[1]].values
        return np.asarray(values + np.uint64(int(match[2] or 0)))

    def table(self) -> str:
        """The mapping of some threads, and what the launch did."""
        recorded = self.recorded()
        lines = [f"{'thread':>7}{'warp.lane':>11}{'(x, y, z)':>14}{'token':>7}{'dims':>13}   as launched"]
        for thread in (0, 1, 15, 16, 31, 32, 63, 64, 127):
            (token, dim), place = self.stated(thread), self.mapping.place(thread)
            same = (token, dim) == (int(recorded.token[thread]), int(recorded.dim[thread]))
            dims = f"{dim} … {dim + self.mapping.vec - 1}"
            where = f"{thread // 32}.{thread % 32}"
            lines.append(
                f"{thread:>7}{where:>11}{place!s:>14}{token:>7}{dims:>13}   {'the same' if same else 'another'}"
            )
        return "\n".join(lines)


@dataclass
class FirstCopies:
    """By thread, int64 [128]: the token whose key its first copy brings, and the first of the dims."""

    token: npt.NDArray[np.int64]
    dim: npt.NDArray[np.int64]


def place_of_thread(block: DecodeBlock, thread: int) -> Question:
    """A thread's [x, y, z]."""
    size = block.mapping
    return Question(
        truth=lambda: list(size.place(thread)),
        because=f"{{truth}}: {thread} = x + {size.bdx} · y + {size.bdx * size.bdy} · z.",
        hint=f"x counts fastest, to {size.bdx}; then y, to {size.bdy}; what is left is z. Answer [x, y, z].",
        ideas=(
            (list(size.place(thread))[::-1], "x comes first."),
            ([thread % size.bdx, thread // size.bdx, 0], f"y ends at {size.bdy - 1}: then z counts on."),
        ),
    )


def key_of_lane(block: DecodeBlock, warp: int, lane: int) -> Question:
    """[token, first dim] that a lane's first cp.async brings, read from the launch."""

    def truth() -> list[int]:
        recorded = block.recorded()
        return [int(recorded.token[32 * warp + lane]), int(recorded.dim[32 * warp + lane])]

    x, y, z = block.mapping.place(32 * warp + lane)
    return Question(
        truth=truth,
        because=f"{{truth}}: it is (x, y, z) = {(x, y, z)}. Row z of the block has its own keys, y picks one of them, "
        f"x its {block.mapping.vec} dims.",
        hint="Its thread number is 32 · warp + lane. A tile has bdy keys per z; y picks the key, x the dims. Answer "
        "[token, first dim].",
        ideas=(
            ([x * block.mapping.vec, (z * block.mapping.bdy + y) * block.keys_per_thread], "The token comes first."),
            (
                [(z * block.mapping.bdy + y) * block.keys_per_thread, x],
                f"x is the lane in its row of {block.mapping.bdx}. Each has {block.mapping.vec} dims.",
            ),
            (
                [lane // block.mapping.bdx, x * block.mapping.vec],
                "Warp 0 has the first two keys of the tile: y counts on in warp 1.",
            ),
        ),
    )


def rows_of_keys(group: int) -> Question:
    """bdz for `group` query heads per KV head."""
    size = Mapping.of(DIM, group)
    return Question(
        truth=lambda: size.bdz,
        because=f"{{truth}}: {size.bdx} lanes × {group} heads are {size.bdx * group} threads; a CTA has 128 at least.",
        hint=f"A CTA has max(128, bdx · bdy) threads, and bdx is {size.bdx}.",
        ideas=(
            (128 // size.bdx, "The heads of the group share these threads: divide by them, too."),
            (size.bdx, "That is bdx, the lanes of a head."),
        ),
    )
