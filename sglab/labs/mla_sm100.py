"""Questions of notebook 12: our SM100 MLA decode, role by role, on the reader's own batch."""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import torch

from sglab.emulator import EmulatedDevice
from sglab.emulator.session import Session
from sglab.events.log import COPY_KINDS, EventLog
from sglab.gpu import Launch
from sglab.kernels import ptx
from sglab.kernels.mla import MlaSm100
from sglab.kernels.mla.sm100_contract import check
from sglab.planning.mla_dims import LATENT_DIM, ROPE_DIM
from sglab.planning.mla_sm100 import mla_sm100_plan
from sglab.workbench.recorders.page_reads import PageReads

from .question import Question

if TYPE_CHECKING:
    from sglab.workbench.batch import Batch

TILE = 128
COLUMN = 0xFFFF
O_COLUMN = 128
"""Tensor memory's first column of O; S of even tiles is at 0, of odd ones at 64."""
KV_MAP = 2
"""The tensor maps in order of first use: Q's latent, Q's rotary part, the cache."""


class Launched:
    """One launch of mla_decode_sm100 on a batch's own tensors, on the emulated B200.

    Args:
        sms: split the requests as planner sglab_mla_sm100 does for a GPU with so many SMs; None: not at all out (batch,
            heads, 512) and lse (batch, heads), natural: what it writes; the partials of splits are merged by a launch
            of its own, which is not among these.
    """

    def __init__(self, batch: Batch, sms: int | None = None) -> None:
        self.batch, self.sms = batch, sms
        pool = batch.runner.token_to_kv_pool.get_key_buffer(batch.layer.layer_id)
        page_size = batch.page_size
        cache = pool.view(-1, page_size, LATENT_DIM + ROPE_DIM)
        lengths = torch.as_tensor(batch.seq_lens, dtype=torch.int32)
        width = -(-max(batch.seq_lens) // page_size)
        table = torch.zeros(len(lengths), width, dtype=torch.int32)
        for request, length in enumerate(batch.seq_lens):
            pages = batch.slots(request)[::page_size] // page_size
            table[request, : len(pages)] = pages.int()
            assert len(pages) == -(-length // page_size)
        q_nope, q_pe = batch.q[..., :LATENT_DIM], batch.q[..., LATENT_DIM:]
        self.page_table = table
        tensors = (q_nope, q_pe, cache, table, batch.sm_scale, None, None, "e")
        plan = None if sms is None else mla_sm100_plan(lengths.numpy(), sm_count=sms)
        splits = None if plan is None else torch.from_numpy(plan.num_splits)
        self.max_splits = 1 if plan is None else plan.max_splits
        self._arguments = check(lengths, splits, self.max_splits, None, *tensors)
        self.out, self.lse = self._arguments.decode.out, self._arguments.decode.lse

    def run(self, **device: object) -> object:
        """Launches; `device` are options of EmulatedDevice."""
        emulated = self._device(device)
        return emulated.run(self._prepared(emulated))

    def record(self) -> EventLog:
        """Launches and keeps every event."""
        device = self._device({})
        return device.record(self._prepared(device))

    def session(self, **device: object) -> Session:
        """The launch, to be stepped."""
        emulated = self._device(device)
        return emulated.session(self._prepared(emulated))

    def _device(self, options: dict[str, object]) -> EmulatedDevice:
        sms = {} if self.sms is None else {"sms": self.sms}
        return EmulatedDevice("sm_100a", **{**sms, **options})  # type: ignore[arg-type]

    def _prepared(self, device: EmulatedDevice) -> Launch:
        heads = self._arguments.decode.num_heads
        return MlaSm100(device, len(self.batch.seq_lens), heads, self.max_splits).prepare(self._arguments)[0]


def who_multiplies(log: EventLog) -> Question:
    """The only warp that starts matrix products, as [CTA of the pair, warp]."""

    def truth() -> list[int]:
        events = log.mmas.event
        ((rank, warp),) = np.unique(np.stack([log.cta[events] % 2, log.warp[events]]), axis=1).T.tolist()
        return [int(rank), int(warp)]

    return Question(
        truth=truth,
        because="{truth}: one thread of one warp feeds the tensor cores of two SMs.",
        hint="Both CTAs have an orange row, mma. Which of the two issues tcgen05.mma?",
        ideas=(
            ([1, 8], "The pair's first CTA starts the products, for both."),
            ([0, 9], "Warp 9 loads."),
            ([8, 0], "The CTA comes first, then the warp."),
        ),
    )


def products_per_tile(log: EventLog, request: int = 0) -> Question:
    """tcgen05.mma instructions for a whole tile of 128 tokens."""

    def truth() -> int:
        lengths = dict[str, int]()
        for name, count in _products(log, request):
            lengths.setdefault(name[0], count)
        return sum(lengths.values())

    return Question(
        truth=truth,
        because="{truth}: S takes 576 / 16 = 36 steps; O takes 128 / 16 = 8 for each of its halves of 256 columns.",
        hint="S = Q·Kᵀ has 576 columns to sum over, O = P·V has 128 tokens, and each instruction takes 16 of them.",
        ideas=(
            (36, "Those are S's. O = P·V takes some, too."),
            (44, "O has 512 columns, two products of 256."),
            (16, "Those are O's. S = Q·Kᵀ sums over 576 columns."),
            (68, "O sums over 128 tokens, not over 512 columns."),
        ),
    )


def order_of_products(log: EventLog, request: int = 0) -> Question:
    """The first five products of a request with at least three tiles, such as "S0 O0 S1 O1 S2"."""

    def truth() -> str:
        return " ".join(name for name, _ in _products(log, request)[:5])

    return Question(
        truth=truth,
        because="{truth}: while the softmax works on one tile's S, the tensor cores already make the next one's.",
        hint=f"Choose CTA pair {request} in the timeline and follow the orange row: S0 goes to column 0 of tensor "
        "memory, S1 to 64, O to 128.",
        ideas=(
            ("S0 O0 S1 O1 S2", "Then the tensor cores would idle during every softmax. Look at the second product."),
            ("S0 S1 S2 O0 O1", "There are two places for S: the third waits until the first was read."),
        ),
    )


def columns_used(log: EventLog) -> Question:
    """Columns of tensor memory, of 512, that products are written to in a CTA."""

    def truth() -> int:
        starts = np.unique(log.mmas.d & COLUMN)
        widths = {int(start): int(log.mmas.n[(log.mmas.d & COLUMN) == start][0]) // 2 for start in starts}
        used: set[int] = set()
        for start, width in widths.items():
            used |= set(range(start, start + width))
        return len(used)

    return Question(
        truth=truth,
        because="{truth}: 64 for S, twice, and 128 for each half of O. An M of 128 over two CTAs folds N in half.",
        hint="The TensorMemory widget shows who owns which columns, and which stay hatched.",
        ideas=(
            (512, "Some stay hatched: they are never written."),
            (640, "An M of 128 over two CTAs: each has 64 rows, and folds N in half over its 128 lanes."),
            (256, "Those are O's. S has two places."),
            (320, "S has two places, so that one can be made while the other is read."),
        ),
    )


def page_loaded(log: EventLog, launched: Launched, request: int, token: int) -> Question:
    """The page that TMA reads for a token of a request."""

    def truth() -> int:
        wanted = int(launched.page_table[request, token // launched.batch.page_size])
        rows = (log.copies.map == KV_MAP) & (log.cta[log.copies.event] // 2 == request)
        assert wanted in log.copies.coordinates[rows, 2]
        return wanted

    return Question(
        truth=truth,
        because="{truth}: it is the copy's third coordinate. The tensor map's third dimension is the pool's pages.",
        hint="Select a copy in the timeline, or print launched.page_table. Which page holds the token?",
        ideas=(
            (token // launched.batch.page_size, "That is the how-manieth page of the request. Which page of the pool?"),
            (token, "That is the token. TMA is given a page and a row."),
            *(
                (
                    int(launched.page_table[other, token // launched.batch.page_size]),
                    f"That is a page of request {other}.",
                )
                for other in range(len(launched.page_table))
                if other != request
                and token // launched.batch.page_size < launched.page_table.shape[1]
                and int(launched.page_table[other, token // launched.batch.page_size]) >= 0
            ),
        ),
    )


def readers_of_page(session: Session, batch: Batch, page: int) -> Question:
    """The CTAs whose copies read a page, as a list."""

    def truth() -> list[int]:
        log = session.log
        reads = PageReads.of(log, batch)
        return [int(cta) for cta in np.unique(log.cta[reads.event[reads.page == page]])]

    return Question(
        truth=truth,
        because="{truth}: the pair that works on the page's split. Each reads one half of it as K, and as V all of it.",
        hint="Press the page in PageTable, then its work unit in SplitKV: the details name a CTA. It is not alone.",
        ideas=(([page], "That is the page. Which CTAs' copies name it?"),),
    )


def copies_of_page(session: Session, batch: Batch, page: int) -> Question:
    """TMA copies of the launch that read a page."""

    def truth() -> int:
        return int((PageReads.of(session.log, batch).page == page).sum())

    return Question(
        truth=truth,
        because="{truth}: each CTA takes 64 of its tokens as K, in 9 chunks of 64 columns, and all 128 as V, in 2 × 4 "
        "chunks of its 256 columns.",
        hint="With the page selected, WarpRoles counts the instructions that read it, of one CTA or, without a CTA "
        "selected, of both. A copy brings 64 tokens × 64 columns.",
        ideas=(
            (17, "That is one CTA's. Both read it."),
            (18, "Those are its copies as K, of both CTAs. It comes as V, too."),
            (16, "Those are its copies as V, of both CTAs. It comes as K, too."),
        ),
    )


def cache_read_twice(log: EventLog, launched: Launched) -> Question:
    """Bytes of the cache that TMA brings, over bytes that the requests' pages hold."""

    def truth() -> float:
        loads = (log.copies.kind == COPY_KINDS.index("tensor load")) & (log.copies.map == KV_MAP)
        pages = sum(-(-length // launched.batch.page_size) for length in launched.batch.seq_lens)
        stored = pages * launched.batch.page_size * (LATENT_DIM + ROPE_DIM) * 2
        return float(log.copies.nbytes[loads].sum()) / stored

    return Question(
        truth=truth,
        because="{truth:.2f}: (576 + 512) / 576 = 1.89, less rows of V that hold no token: they are left out, 64 at a "
        "time. The second time L2 has it.",
        hint="S needs all 576 columns of a token, O needs 512 of them again, in other places.",
        tolerance=0.03,
        ideas=(
            (2.0, "The rotary 64 columns are no part of the value: they come once."),
            (1.0, "Each row comes as a key, and again as a value."),
        ),
    )


def same_for_16_heads(batch_of_16: Batch, log: EventLog) -> Question:
    """Matrix products with 16 heads, over those with 128, for the same lengths."""

    def truth() -> float:
        return len(Launched(batch_of_16).record().mmas.event) / len(log.mmas.event)

    return Question(
        truth=truth,
        because="{truth:.0f}: the tile always has 128 rows. Here 112 of them are zeros: padding costs full price.",
        hint="Does M, the rows of a tcgen05.mma, depend on the number of heads?",
        ideas=(
            (0.125, "Fewer heads do not make the tile smaller: it has 128 rows."),
            (8.0, "As much for an eighth of the heads. How many products are that, compared with 128 heads?"),
        ),
    )


def empty_request() -> Question:
    """The LSE of a request without tokens."""

    def truth() -> float:
        device = EmulatedDevice("sm_100a")
        q_nope, q_pe = torch.randn(1, 128, LATENT_DIM).half(), torch.randn(1, 128, ROPE_DIM).half()
        cache, table = torch.randn(1, TILE, LATENT_DIM + ROPE_DIM).half(), torch.zeros(1, 1, dtype=torch.int32)
        lengths = torch.zeros(1, dtype=torch.int32)
        tensors = (q_nope, q_pe, cache, table, 0.1, None, None, "e")
        checked = check(lengths, None, 1, None, *tensors)
        device.run(MlaSm100(device, 1, 128).prepare(checked)[0])
        return float(checked.decode.lse[0, 0])

    return Question(
        truth=truth,
        because="{truth}: the logarithm of an empty sum, and O is 0. It waits for no barrier, so nothing can hang.",
        hint='A logarithm of nothing. Answer float("-inf") or float("inf") or a number.',
        ideas=(
            (0.0, "exp of that would be 1: a weight. A sum of nothing is 0, and its logarithm?"),
            (math.inf, "So FlashMLA says. Here it is what a logarithm of 0 is."),
            (math.nan, "A NaN would spoil every merge."),
        ),
    )


def exact(batch: Batch, request: int, head: int) -> torch.Tensor:
    """O of one head in float64."""
    pool = batch.runner.token_to_kv_pool.get_key_buffer(batch.layer.layer_id)
    keys = pool.view(-1, LATENT_DIM + ROPE_DIM)[batch.slots(request)].double()
    scores = keys @ batch.q[request, head].double() * batch.sm_scale
    return torch.softmax(scores, 0) @ keys[:, :LATENT_DIM]


def largest_error(launched: Launched) -> float:
    """Largest difference of `out` from float64, over all requests and heads."""
    batch = launched.batch
    errors = [
        float((launched.out[request, head] - exact(batch, request, head)).abs().max())
        for request in range(len(batch.seq_lens))
        for head in range(batch.num_heads)
    ]
    return math.nan if any(map(math.isnan, errors)) else max(errors)


def source() -> str:
    """Where the kernel's source is, from the repository's root."""
    return ptx.provenance("mla_decode_sm100").source


def _products(log: EventLog, request: int) -> list[tuple[str, int]]:
    """The products of a request's CTA pair in order, S0, S1, O0, …, each with its number of instructions."""
    columns = (log.mmas.d & COLUMN)[log.cta[log.mmas.event] // 2 == request]
    places = ["O" if column >= O_COLUMN else f"S at {column}" for column in columns.tolist()]
    counts = {"S": 0, "O": 0}
    products = []
    for place, instructions in groupby(places):
        products.append((f"{place[0]}{counts[place[0]]}", len(list(instructions))))
        counts[place[0]] += 1
    return products
