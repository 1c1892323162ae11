"""Questions of notebook 13: MLA decode on Hopper, under FlashMLA's contract; pages, splits and edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from sglab.emulator import EmulatedDevice
from sglab.events.log import COPY_KINDS, EventLog
from sglab.gpu.architecture import H100_SMS
from sglab.kernels import flash_mla_with_kvcache, get_mla_metadata, split_kv_combine
from sglab.kernels.flash_mla import PAGE_SIZE
from sglab.kernels.mla import MlaSm90
from sglab.kernels.mla.arguments import check
from sglab.planning import PLANNERS
from sglab.planning.mla_dims import LATENT_DIM, NUM_HEADS, ROPE_DIM
from sglab.planning.mla_sm90 import TILE, mla_sm90_plan
from sglab.workbench import decode_batch

from .debugging import Decode
from .question import Question

if TYPE_CHECKING:
    from sglab.workbench.batch import Batch

SCALE = 192**-0.5
KV_MAP = 2
"""The tensor maps in order of first use: Q's latent, Q's rotary part, the cache."""


class Call:
    """Tensors of a call of flash_mla_with_kvcache: random, pages in random order, NaN where no request has a token.

    q (requests, query_tokens, heads, 576); cache (pages, 64, 1, 576); block_table, seqlens int32; metadata: FlashMLA's
    """

    def __init__(
        self,
        seq_lens: Sequence[int],
        num_heads: int = 16,
        query_tokens: int = 1,
        dtype: torch.dtype = torch.bfloat16,
        seed: int = 0,
    ) -> None:
        random = torch.Generator().manual_seed(seed)
        counts = [-(-length // PAGE_SIZE) for length in seq_lens]
        pages = torch.randperm(sum(counts) + 1, generator=random).tolist()
        self.seqlens = torch.tensor(list(seq_lens), dtype=torch.int32)
        self.q = torch.randn(len(counts), query_tokens, num_heads, LATENT_DIM + ROPE_DIM, generator=random).to(dtype)
        self.cache = torch.full((len(pages), PAGE_SIZE, 1, LATENT_DIM + ROPE_DIM), torch.nan, dtype=dtype)
        self.block_table = torch.full((len(counts), max(*counts, 1)), -1, dtype=torch.int32)
        for request, (length, count) in enumerate(zip(seq_lens, counts, strict=True)):
            own = [pages.pop() for _ in range(count)]
            self.block_table[request, :count] = torch.tensor(own, dtype=torch.int32)
            rows = torch.full((count * PAGE_SIZE, LATENT_DIM + ROPE_DIM), torch.nan)
            rows[:length] = torch.randn(length, LATENT_DIM + ROPE_DIM, generator=random)
            self.cache[own] = rows.view(count, PAGE_SIZE, 1, LATENT_DIM + ROPE_DIM).to(dtype)
        self.metadata = get_mla_metadata(self.seqlens, query_tokens * num_heads)

    def run(self, causal: bool = False, implementation: str = "auto") -> tuple[torch.Tensor, torch.Tensor]:
        """O (requests, query tokens, heads, 512) and the natural LSE (requests, heads, query tokens)."""
        arguments = (self.q, self.cache, self.block_table, self.seqlens, LATENT_DIM, *self.metadata)
        return flash_mla_with_kvcache(*arguments, softmax_scale=SCALE, causal=causal, implementation=implementation)

    def exact(self, request: int, token: int, sees: int) -> torch.Tensor:
        """O of one query token that sees the first `sees` tokens, in float64: (heads, 512)."""
        kv = self.cache[self.block_table[request].long()].reshape(-1, LATENT_DIM + ROPE_DIM)[:sees].double()
        scores = self.q[request, token].double() @ kv.T * SCALE
        return torch.softmax(scores, -1) @ kv[:, :LATENT_DIM]


def record_unsplit(batch: Batch) -> EventLog:
    """Our kernel on a batch's own tensors, no request split: a CTA has all tiles of one, for 64 heads."""
    cache = batch.runner.token_to_kv_pool.get_key_buffer(batch.layer.layer_id).view(
        -1, batch.page_size, LATENT_DIM + ROPE_DIM
    )
    lengths = [int(length) for length in batch.seq_lens]
    table = torch.zeros(len(lengths), -(-max(lengths) // batch.page_size), dtype=torch.int32)
    for request, length in enumerate(lengths):
        pages = batch.slots(request)[:: batch.page_size] // batch.page_size
        table[request, : -(-length // batch.page_size)] = pages.int()
    q_nope, q_pe = batch.q.split([LATENT_DIM, ROPE_DIM], -1)
    arguments = check("mla_decode_sm90", q_nope, q_pe, cache, table, batch.sm_scale, None, None, "e")
    plan = mla_sm90_plan(lengths, num_heads=batch.num_heads, sm_count=H100_SMS, limit=-(-max(lengths) // TILE))
    device = EmulatedDevice("sm_90a")
    return device.record(MlaSm90(device, plan, batch.num_heads).prepare(arguments)[0])


def splits_of(num_splits: torch.Tensor, request: int) -> Question:
    """How many splits FlashMLA's plan cuts a request into."""
    return Question(
        truth=lambda: int(num_splits.diff()[request]),
        because="{truth}: num_splits is a prefix sum, so neighbours differ by a request's splits.",
        hint="num_splits[i + 1] − num_splits[i].",
        ideas=(
            (int(num_splits[request + 1]), "That is a running total. Take the one before it away."),
            (int(num_splits[request]), "So many splits have the requests before it."),
        ),
    )


def busiest(planners: Sequence[str], seq_lens: Sequence[int]) -> Question:
    """Tiles of 64 tokens that the busiest CTA has, per planner, on an H100."""

    def truth() -> list[int]:
        most = []
        for name in planners:
            work = PLANNERS[name](seq_lens, num_heads=NUM_HEADS, num_kv_heads=1, sm_count=H100_SMS).work
            tiles = -(-(work.token_end - work.token_start) // TILE)
            most.append(int(np.bincount(work.cta, tiles).max()))
        return most

    return Question(
        truth=truth,
        because="{truth}: for FlashMLA starting a request costs as much as 5 blocks, for any batch.",
        hint="Select the longest bar of each pane: how many times 64 tokens are that?",
        ideas=(([-(-max(seq_lens) // TILE)] * 2, "So many tiles has the longest request. Both planners cut it."),),
    )


def loading_warp(log: EventLog) -> Question:
    """The warp of a CTA that issues all TMA copies."""

    def truth() -> int:
        (warp,) = np.unique(log.warp[log.copies.event]).tolist()
        return int(warp)

    return Question(
        truth=truth,
        because="{truth}: one thread of the third warpgroup. The other three warps of it have nothing to do.",
        hint="Twelve warps, three warpgroups. Which row of the timeline has the copies?",
        ideas=(
            (0, "Warps 0 to 7 compute."),
            (9, "That is the loading warp of the Blackwell kernel. Here it is the first of the third warpgroup."),
            (11, "All four warps of the third warpgroup are there for loading, but one does it."),
        ),
    )


def cache_read(log: EventLog, seq_lens: Sequence[int]) -> Question:
    """Bytes of the cache that TMA brings, over bytes that the requests' tiles hold."""

    def truth() -> float:
        loads = (log.copies.kind == COPY_KINDS.index("tensor load")) & (log.copies.map == KV_MAP)
        stored = sum(-(-length // TILE) for length in seq_lens) * TILE * (LATENT_DIM + ROPE_DIM) * 2
        return float(log.copies.nbytes[loads].sum()) / stored

    return Question(
        truth=truth,
        because="{truth:.0f}: a CTA loads a tile once for keys and values, but 128 heads take two CTAs.",
        hint="How many CTAs work on the same tokens? Each has 64 heads.",
        tolerance=0.03,
        ideas=(
            (1, "So it is for one CTA: wgmma reads the same bytes as keys and as values. But a CTA has 64 heads."),
            (1.89, "So it was on Blackwell. wgmma reads the same bytes as keys and as values."),
            (3.78, "wgmma reads the same bytes as keys and as values: each CTA loads them once."),
        ),
    )


def tma_boxes(page_size: int, seq_len: int = 100) -> list[tuple[int, int, int, int]]:
    """The copies that bring the first 64 columns of a request's first tile: (column, row in the page, page, rows)."""
    device = EmulatedDevice("sm_90a")
    random = torch.Generator().manual_seed(page_size)
    pages = -(-seq_len // page_size)
    cache = torch.randn(pages, page_size, LATENT_DIM + ROPE_DIM, generator=random).half()
    q_nope, q_pe = torch.randn(1, 64, LATENT_DIM).half(), torch.randn(1, 64, ROPE_DIM).half()
    table = torch.randperm(pages, generator=random).int().unsqueeze(0)
    plan = mla_sm90_plan([seq_len], num_heads=64, sm_count=H100_SMS, limit=100)
    arguments = check("mla_decode_sm90", q_nope, q_pe, cache, table, SCALE, None, None, "e")
    log = device.record(MlaSm90(device, plan, 64).prepare(arguments)[0])
    of_cache = np.flatnonzero(log.copies.map == KV_MAP)
    first = of_cache[: TILE // min(page_size, TILE)]
    return [(*log.copies.coordinates[row, :3].tolist(), int(log.copies.nbytes[row]) // 128) for row in first]


def copies_per_chunk(page_size: int) -> Question:
    """TMA copies that bring 64 tokens of 64 columns."""
    return Question(
        truth=lambda: len(tma_boxes(page_size)),
        because="{truth}: a box is within one page, and the page's number is its third coordinate.",
        hint="A copy brings at most a page's tokens, and never more than 64.",
        ideas=(
            (1, "A box ends with its page."),
            (TILE, "One for each row? A box has as many rows as the page."),
        ),
    )


def cp_async_rows(warps: int = 4) -> list[tuple[int, int, int]]:
    """The first cp.async for keys of a decode with pages of 16 on CUDA cores, a row per warp: (page, first row in the
    page, bytes), found out from the addresses."""
    decode = Decode(seq_lens=(100,), group=4)
    log = decode.record()
    offsets = log.copies.address.astype(np.int64) - decode.k.data_ptr()
    of_keys = (log.copies.kind == COPY_KINDS.index("cp.async")) & (offsets >= 0) & (offsets < decode.k.nbytes)
    page_bytes, row_bytes = decode.k[0].nbytes, decode.k[0, 0].nbytes
    return [
        (int(offset // page_bytes), int(offset % page_bytes // row_bytes), int(nbytes))
        for offset, nbytes in zip(offsets[of_keys][:warps], log.copies.nbytes[of_keys], strict=False)
    ]


def rows_without_token(seq_len: int) -> Question:
    """Rows of a request's last tile that are multiplied though no token is there."""
    return Question(
        truth=lambda: -seq_len % TILE,
        because="{truth}. Their probability is 0, and the kernel writes zeros over their values: 0 · NaN is NaN.",
        hint="The tile has 64 rows. How many tokens of the request are in it?",
        ideas=(
            (seq_len % TILE, "So many rows have a token. How many have none?"),
            (-seq_len % 128, "The tile has 64 rows here."),
        ),
    )


def partials_of(lses: Sequence[float]) -> tuple[torch.Tensor, torch.Tensor]:
    """The combine of one row's splits with these LSEs, base 2: O, of 512 columns, and the LSE. The values of a split
    without tokens are NaN, as a buffer may be that was never written."""
    lse = torch.tensor(lses, dtype=torch.float32).view(-1, 1)
    values = torch.randn(len(lses), 1, LATENT_DIM)
    values[lse == -torch.inf] = torch.nan
    out, merged = torch.empty(1, 1, LATENT_DIM), torch.empty(1, 1)
    slots, first = torch.tensor([0, len(lses)], dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    split_kv_combine(values, lse, slots, first, out, merged, implementation="cuda")
    return out[0, 0], merged[0, 0]


def merged_lse(lses: Sequence[float]) -> Question:
    """The base-2 LSE of splits together."""
    total = sum(math.exp(each) for each in lses)
    return Question(
        truth=lambda: float(partials_of(lses)[1]),
        because="{truth:.3f}: log2 of the sum of powers of two. A split without tokens adds nothing.",
        hint="log2(Σ 2^lse). What is 2^−∞?",
        ideas=(
            (3.0, "LSEs are logarithms: their powers add up, not they."),
            (2.0, "The larger one alone. The other adds to the sum."),
            (math.log(total) if total else -math.inf, "That is the sum in base e. Here 2 is the base."),
            (-math.inf, "2^−∞ is 0: it adds nothing, and takes nothing away."),
        ),
    )


def seen_by(seq_len: int, query_tokens: int, token: int) -> Question:
    """KV tokens that a query token sees under the causal mask."""

    later = query_tokens - 1 - token

    def truth() -> int:
        call = Call([seq_len], query_tokens=query_tokens)
        out = call.run(causal=True)[0][0, token].double()
        errors = [float((out - call.exact(0, token, sees)).norm()) for sees in range(1, seq_len + 1)]
        return int(np.argmin(errors)) + 1

    return Question(
        truth=truth,
        because=(
            f"{{truth}} = {seq_len} − {later}: the {query_tokens} query tokens are the last of the {seq_len}; each "
            f"sees all but those after it, here {later}. Compared were the kernel's output and float64 over the "
            "first 1, 2, 3, … tokens: {truth} comes closest."
        ),
        hint="The KV tokens include the query tokens themselves; the last of these sees everything.",
        ideas=(
            (seq_len, "Only the last of the query tokens sees all."),
            (seq_len - query_tokens, "A token sees itself, too."),
            (token + 1, "That is within the draft. The tokens before it are seen, too."),
        ),
    )


def useful_on_hopper(num_heads: int) -> Question:
    """The share of a tile's products that is not padding of heads, on Hopper."""

    def truth() -> float:
        batch = decode_batch([TILE], num_heads=num_heads, page_size=PAGE_SIZE, dtype="float16", seed=0)
        mmas = record_unsplit(batch).mmas
        done = (2 * mmas.m.astype(np.int64) * mmas.n * mmas.k).sum()
        return float(2 * num_heads * TILE * (LATENT_DIM + ROPE_DIM + LATENT_DIM) / done)

    return Question(
        truth=truth,
        because="{truth}: 64 rows, regardless of what they hold. With 128 heads a second CTA takes the other 64.",
        hint="How many rows has a wgmma, and how many of them are heads?",
        ideas=(
            (num_heads / 128, "That is Blackwell's, whose pair of CTAs has 128 rows. A wgmma has 64."),
            (1 - num_heads / 64, "That is the share of padding."),
            (64 / num_heads, "So many times the work. Which share of it is useful?"),
        ),
    )
