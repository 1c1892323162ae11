"""What a pass must read, write and multiply in each backend: counted from its lengths, masks and plan, never timed.

Bytes are the least that memory must give: every row of KV that any query of the pass sees, once. Kernels whose blocks
of heads read the same rows again find them in a cache, or pay more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.explore.machines import PEAKS, Peaks
from sglab.attention.sparse.double_sparsity import DoubleSparseAttnBackend
from sglab.engine import ForwardBatch, ModelRunner, RadixAttention
from sglab.kernels.k_records import RECORD

INDEX_HEADS, INDEX_DIM, INDEX_KEY_BYTES = 64, 128, 132
"""DeepSeek-V3.2's indexer: 128 FP8 numbers and a float32 scale per key."""


@dataclass(frozen=True)
class Cost:
    """Counted for one layer of a pass.

    Attributes:
        kv_rows: rows of the KV pool that are read, of all requests.
        kv_bytes: their bytes. other_bytes: an index's keys and scores, beside the KV.
        copied_bytes: copies of KV rows, written and read again.
        qo_bytes: queries and outputs. index_bytes: what it reads of the arrays built for the pass.
        partial_bytes: partial results, written and read again.
        flops: multiplications and additions of products with keys and values that count.
        wasted_flops: of products that a mask then throws away.
        notes: what the count assumes.
    """

    kv_rows: int
    kv_bytes: int
    qo_bytes: int
    index_bytes: int
    flops: int
    other_bytes: int = 0
    copied_bytes: int = 0
    partial_bytes: int = 0
    wasted_flops: int = 0
    notes: tuple[str, ...] = ()

    @property
    def nbytes(self) -> int:
        parts = (self.kv_bytes, self.other_bytes, self.copied_bytes, self.qo_bytes, self.index_bytes)
        return sum(parts) + self.partial_bytes

    @property
    def intensity(self) -> float:
        """FLOPs per byte."""
        return (self.flops + self.wasted_flops) / max(1, self.nbytes)

    def bound(self, machine: str) -> tuple[float, str] | None:
        """The least time in ns on a machine, and what sets it: "memory" or "products". None: no figures of it here."""
        peaks: Peaks | None = PEAKS.get(machine)
        if peaks is None:
            return None
        memory = self.nbytes / peaks.gbytes_per_second
        products = (self.flops + self.wasted_flops) / (peaks.tflops * 1e3)
        return max((memory, "memory"), (products, "products"))


@dataclass(frozen=True)
class Seen:
    """What the queries of a pass see, per request: queries, keys there are, keys that any query sees, and pairs."""

    queries: list[int]
    keys: list[int]
    read: list[int]
    pairs: list[int]
    drafts: int = 0


def seen(batch: ForwardBatch, window: int) -> Seen:
    """Counts of a pass; a query at p sees keys p − window .. p, or a draft its ancestors and the prefix."""
    lens = [int(length) for length in batch.seq_lens.tolist()]
    mode = batch.forward_mode
    if mode.is_target_verify():
        drafts, mask, at = batch.spec_info.draft_token_num, batch.spec_info.custom_mask, 0
        queries, keys, read, pairs = [], [], [], []
        for prefix in lens:
            part = mask[at : at + drafts * (prefix + drafts)].view(drafts, -1).to(torch.bool)
            at += part.numel()
            queries.append(drafts)
            keys.append(prefix + drafts)
            read.append(int(part.any(0).sum()))
            pairs.append(int(part.sum()))
        return Seen(queries, keys, read, pairs, drafts)
    new = [1] * len(lens) if mode.is_decode() else list(batch.extend_seq_lens_cpu or [])
    reach = [length if window < 0 else min(length, window + 1) for length in lens]
    pairs = [
        _causal(length, count) if window < 0 else sum(min(p + 1, window + 1) for p in range(length - count, length))
        for length, count in zip(lens, new, strict=True)
    ]
    read = [
        min(length, most + count - 1) if window >= 0 else length
        for length, most, count in zip(lens, reach, new, strict=True)
    ]
    return Seen(new, lens, read, pairs)


def _causal(length: int, count: int) -> int:
    """Pairs of `count` last queries and their keys."""
    return count * (length - count) + count * (count + 1) // 2


@dataclass(frozen=True)
class Counted:
    """What a backend's own rule starts from: the pass, and the count of one that reads every row once."""

    backend: AttentionBackend
    runner: ModelRunner
    batch: ForwardBatch
    layer: RadixAttention
    seen: Seen
    row_bytes: int
    plain: Cost
    sparse: bool


def cost_of(
    backend: AttentionBackend,
    runner: ModelRunner,
    batch: ForwardBatch,
    layer: RadixAttention,
    counts: Seen,
    *,
    index_bytes: int,
    partial_bytes: int,
    sparse: bool,
) -> Cost:
    """Count one layer.

    Args:
        backend: prepared for the pass.
        counts: what `seen` says of the pass.
        index_bytes: that it reads of the arrays that it built. partial_bytes: partial outputs of its plan, once.
        sparse: the model has DeepSeek Sparse Attention's indexer.
    """
    config, element = runner.model_config, runner.kv_cache_dtype.itemsize
    wide = config.head_dim if config.kind == "mla" else config.head_dim + config.v_head_dim
    row_bytes, pool = wide * element * (1 if config.kind == "mla" else layer.tp_k_head_num), runner.token_to_kv_pool
    if pool.kv_format:  # with its scales
        row_bytes = pool.get_kv_size_bytes() // ((pool.size + pool.page_size) * pool.layer_num)
    tokens, heads = sum(counts.queries), layer.tp_q_head_num
    plain = Cost(
        kv_rows=sum(counts.read),
        kv_bytes=sum(counts.read) * row_bytes,
        qo_bytes=tokens * heads * (layer.head_dim + layer.v_head_dim) * runner.dtype.itemsize,
        index_bytes=index_bytes,
        flops=products(sum(counts.pairs), layer),
        partial_bytes=2 * partial_bytes,
    )
    own = backend.serving
    rule = RULES.get(own.name)
    known = Counted(own, runner, batch, layer, counts, row_bytes, plain, sparse)
    return plain if rule is None else rule(known)


def products(pairs: int, layer: RadixAttention) -> int:
    """Of q·k and p·v over so many pairs of a query token and a key, in every head."""
    return 2 * pairs * layer.tp_q_head_num * (layer.head_dim + layer.v_head_dim)


def _torch(it: Counted) -> Cost:
    """Every row of a request is gathered into a contiguous copy, keys and values apart, whatever its window."""
    layer, runner = it.layer, it.runner
    element, stored = runner.dtype.itemsize, runner.kv_cache_dtype.itemsize
    wide = (layer.head_dim + layer.v_head_dim) * layer.tp_k_head_num
    rows = sum(it.seen.keys)
    decode = it.batch.forward_mode.is_decode()
    computed = sum(it.seen.pairs) if decode else sum(q * k for q, k in zip(it.seen.queries, it.seen.keys, strict=True))
    return replace(
        it.plain,
        kv_rows=rows,
        kv_bytes=rows * wide * stored,
        copied_bytes=2 * rows * wide * element,
        wasted_flops=products(computed, layer) - it.plain.flops if it.backend.name == "torch_native" else 0,
        notes=("each request's keys and values are copied together first, then attended to in one call",),
    )


def _states(it: Counted, calls: int) -> int:
    """Bytes of partial outputs with their LSE, one per call, written and read again."""
    rows = sum(it.seen.queries) * it.layer.tp_q_head_num
    return 2 * calls * rows * (it.layer.v_head_dim * it.runner.dtype.itemsize + 4)


def _flashinfer(it: Counted) -> Cost:
    made: Any = getattr(it.backend, "forward_metadata", None)
    merged = getattr(made, "use_ragged", False) and not getattr(made, "extend_no_prefix", True)
    if not merged or it.layer.sliding_window_size >= 0:
        return it.plain
    note = "new tokens attend to themselves and to their prefix in two calls, whose results are merged"
    return replace(it.plain, partial_bytes=it.plain.partial_bytes + _states(it, 2), notes=(note,))


def _cascade(it: Counted) -> Cost:
    spec = it.batch.spec_info
    if not it.batch.forward_mode.is_target_verify() or getattr(spec, "topk", 1) == 1:
        return it.plain
    note = "a tree is two calls, over the prefix and over the drafts, whose results are merged"
    return replace(it.plain, partial_bytes=it.plain.partial_bytes + _states(it, 2), notes=(note,))


def _dual_chunk(it: Counted) -> Cost:
    note = "three calls (this chunk, the one before, all earlier ones), whose results are merged"
    return replace(it.plain, partial_bytes=_states(it, 3), notes=(note,))


def _double_sparsity(it: Counted) -> Cost:
    backend = it.backend
    if not isinstance(backend, DoubleSparseAttnBackend) or not backend.is_sparse:
        config = getattr(backend, "config", None)
        least = getattr(config, "heavy_token_num", 0), getattr(config, "sparse_decode_threshold", 0)
        note = f"dense: sparse from {least[0]:,} tokens in every request and {least[1]:,} in the longest, in decode"
        scores = 2 * 4 * it.layer.tp_q_head_num * sum(it.seen.keys) if it.batch.forward_mode.is_decode() else 0
        return replace(it.plain, other_bytes=scores, partial_bytes=0, notes=(note,))
    layer, config = it.layer, backend.config
    channels = min(config.heavy_channel_num, layer.head_dim)
    tokens, requests, heads = sum(it.seen.keys), len(it.seen.keys), layer.tp_q_head_num
    element = it.runner.kv_cache_dtype.itemsize
    labels = tokens * layer.tp_k_head_num * channels * element
    scores = 2 * 4 * heads * requests * max(it.seen.keys)
    chosen = requests * heads * config.heavy_token_num
    return replace(
        it.plain,
        kv_rows=requests * config.heavy_token_num,
        kv_bytes=chosen * (layer.head_dim + layer.v_head_dim) * element,
        other_bytes=labels + scores,
        flops=2 * tokens * heads * channels + 2 * chosen * (layer.head_dim + layer.v_head_dim),
        notes=(
            f"{channels} heavy channels of every key score it; each of the {heads} heads reads keys and values of "
            f"{config.heavy_token_num} tokens of its own choice",
        ),
    )


def _dsa(it: Counted) -> Cost:
    if it.runner.kv_cache_dtype == torch.float8_e4m3fn:  # kept as records
        it = replace(it, row_bytes=RECORD, plain=replace(it.plain, kv_bytes=it.plain.kv_rows * RECORD))
    if not it.sparse:
        return replace(it.plain, notes=("dense: this model has no indexer to choose tokens",))
    topk = getattr(it.backend, "index_topk", 0)
    kept = [
        sum(min(length - count + i + 1, topk) for i in range(count))
        for length, count in zip(it.seen.keys, it.seen.queries, strict=True)
    ]
    rows = [min(read, total) for read, total in zip(it.seen.read, kept, strict=True)]
    scored = sum(it.seen.pairs)
    return replace(
        it.plain,
        kv_rows=sum(rows),
        kv_bytes=sum(rows) * it.row_bytes,
        other_bytes=sum(it.seen.keys) * INDEX_KEY_BYTES + 2 * 4 * scored,
        flops=products(sum(kept), it.layer) + 2 * scored * INDEX_HEADS * INDEX_DIM,
        notes=(
            f"the indexer scores every key ({INDEX_HEADS} heads of {INDEX_DIM}, {INDEX_KEY_BYTES} B a key) and keeps "
            f"{topk:,}; rows counted as if a request's queries chose the same",
        ),
    )


RULES: dict[str, Callable[[Counted], Cost]] = {
    "torch_native": _torch,
    "flex_attention": _torch,
    "flashinfer": _flashinfer,
    "llada2_cfg_flashinfer": _flashinfer,
    "fa3": _cascade,
    "fa4": _cascade,
    "dual_chunk_flash_attn": _dual_chunk,
    "double_sparsity": _double_sparsity,
    "dsa": _dsa,
    "nsa": _dsa,
}
"""Backends that read, copy or merge otherwise than each row once; partial results of a plan are counted for all."""
