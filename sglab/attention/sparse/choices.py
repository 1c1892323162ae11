"""Which keys sparse attention would choose: the field's rules on one layer's queries and keys, as masks.

Every rule is causal and gives bool [heads, queries, keys]; query t is token t of the same sequence. `budget` is the
number of keys that a query may attend to; rules of blocks and lines come as near to it as their form allows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from sglab.kernels import act_quant, convert_vertical_slash_indexes, fp8_mqa_logits

INDEX_DIM = 128
"""Of DeepSeek's indexer, and what its kernels take."""
BLOCK = 8
"""Keys of a block, and query rows that share lines: small, for prompts of some hundred tokens (NSA: 64)."""
HEAVY_CHANNELS = 32
LOOKED_AT = 16
"""Last queries from which vertical lines and slashes are found (MInference: 64)."""
SINKS = 4


@dataclass(frozen=True)
class Rows:
    """One layer's attention over one sequence, float64.

    Attributes:
        q: [T, heads, head_dim]; k: [T, heads, head_dim]; v: [T, heads, v_head_dim]: KV heads repeated for their groups.
        scale: multiplies q · k. kv_heads: that are stored.
        row_bytes: of one token in the pool.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    kv_heads: int
    row_bytes: int

    @property
    def tokens(self) -> int:
        return len(self.q)

    @property
    def heads(self) -> int:
        return self.q.shape[1]

    @property
    def key_bytes(self) -> int:
        """Of one token's keys alone, in 2 bytes a number: what scoring reads. MLA's row is its key."""
        return 2 * self.kv_heads * self.k.shape[2]

    def logits(self) -> torch.Tensor:
        """[heads, T, T], −inf for keys after the query."""
        scored = torch.einsum("qhd,khd->hqk", self.q, self.k) * self.scale
        return scored.masked_fill(~causal(self.tokens), -math.inf)

    def probabilities(self) -> torch.Tensor:
        """[heads, T, T]."""
        return self.logits().softmax(-1)


@dataclass(frozen=True)
class Rule:
    """A way to choose.

    Attributes:
        title, about: what it is, and what of it is otherwise here. source: where it comes from.
        score: what the rule looks at, once; choose: scores and a budget -> bool [heads, T, T].
        cost: bytes that choosing reads per query, beside the chosen rows, and its FLOPs, on average.
    """

    name: str
    title: str
    about: str
    source: str
    score: Callable[[Rows], torch.Tensor]
    choose: Callable[[Rows, torch.Tensor, int], torch.Tensor]
    cost: Callable[[Rows], tuple[float, float]]


def causal(tokens: int) -> torch.Tensor:
    """bool [T, T]: a query sees itself and what came before."""
    return torch.ones(tokens, tokens, dtype=torch.bool).tril()


def best(scores: torch.Tensor, budget: int) -> torch.Tensor:
    """The `budget` highest finite scores of each row; all where there are fewer. [..., keys] -> bool."""
    kept = scores.topk(min(budget, scores.shape[-1]), -1).indices
    return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, kept, True) & scores.isfinite()


def true_logits(rows: Rows) -> torch.Tensor:
    """[heads, T, T]: of each head."""
    return rows.logits()


def indexer_scores(rows: Rows) -> torch.Tensor:
    """[T, T]: DeepSeek's indexer, Σ over heads of relu(q · k) in FP8.

    Its projections are not trained here: queries and keys go to the keys' INDEX_DIM principal directions.
    """
    stored = rows.k[:, :: rows.heads // rows.kv_heads]
    directions = torch.linalg.svd(stored.flatten(0, 1), full_matrices=False).Vh[:INDEX_DIM].T
    pad = (0, INDEX_DIM - directions.shape[1])
    q = torch.nn.functional.pad(rows.q @ directions, pad).float().contiguous()
    k = torch.nn.functional.pad(stored.mean(1) @ directions, pad).float().contiguous()
    (q8, q_scale), (k8, k_scale) = act_quant(q), act_quant(k)
    ends = torch.arange(1, rows.tokens + 1, dtype=torch.int32)
    weights = q_scale.squeeze(-1).contiguous()
    scores = fp8_mqa_logits(q8, (k8, k_scale.flatten()), weights, torch.zeros_like(ends), ends)
    return scores[:, : rows.tokens].double().masked_fill(~causal(rows.tokens), -math.inf)


def block_scores(rows: Rows) -> torch.Tensor:
    """[T, blocks]: probability of each whole block's mean key, summed over heads; −inf from the query's own on.

    NSA compresses a block by a trained function; its mean stands for it here.
    """
    count = -(-rows.tokens // BLOCK)
    block = torch.arange(rows.tokens) // BLOCK
    means = torch.zeros(count, *rows.k.shape[1:], dtype=rows.k.dtype).index_add_(0, block, rows.k)
    means = means / torch.bincount(block, minlength=count)[:, None, None]
    scored = torch.einsum("qhd,bhd->hqb", rows.q, means) * rows.scale
    whole = torch.arange(count) < block[:, None]
    shared = scored.masked_fill(~whole, -math.inf).softmax(-1).nan_to_num(0).sum(0)
    return shared.masked_fill(~whole, -math.inf)


def heavy_channels(rows: Rows) -> int:
    """Of each head; a narrow one has no more than it has."""
    return min(HEAVY_CHANNELS, rows.q.shape[2])


def heavy_scores(rows: Rows) -> torch.Tensor:
    """[heads, T, T]: products over each head's heavy channels, those with the largest mean |q| · |k|."""
    magnitude = rows.q.abs().mean(0) * rows.k.abs().mean(0)
    heavy = magnitude.topk(heavy_channels(rows), -1).indices.expand(rows.tokens, -1, -1)
    scored = torch.einsum("qhc,khc->hqk", rows.q.gather(2, heavy), rows.k.gather(2, heavy))
    return scored.masked_fill(~causal(rows.tokens), -math.inf)


def last_probabilities(rows: Rows) -> torch.Tensor:
    """[heads, LOOKED_AT, T]: of the last queries."""
    return rows.probabilities()[:, -LOOKED_AT:]


def nothing(rows: Rows) -> torch.Tensor:
    """No scores at all."""
    return torch.zeros(0)


def by_token(rows: Rows, scores: torch.Tensor, budget: int) -> torch.Tensor:
    """The highest scores: of each head, or of all heads together."""
    return best(scores, budget).expand(rows.heads, -1, -1)


def by_block(rows: Rows, scores: torch.Tensor, budget: int) -> torch.Tensor:
    """The query's own block, the first one, and those with the highest scores."""
    count = scores.shape[1]
    more = (count if budget >= rows.tokens else budget // BLOCK) - 2  # the last block may be short
    block = torch.arange(rows.tokens) // BLOCK
    first = torch.arange(count) == 0  # kept anyway: it takes no other's place
    others = scores.masked_fill(first, -math.inf)
    kept = best(others, more) if more > 0 else torch.zeros_like(scores, dtype=torch.bool)
    kept[:, 0] = True
    kept |= torch.arange(count) == block[:, None]
    return (kept[:, block] & causal(rows.tokens)).expand(rows.heads, -1, -1)


def by_line(rows: Rows, seen: torch.Tensor, budget: int) -> torch.Tensor:
    """Keys and distances with most probability among the last queries, as many of both, as blocks and columns: all of
    them where all keys may be kept, else one for each block that may be, doubled while no query keeps too many."""
    tokens = rows.tokens
    at = torch.arange(tokens - seen.shape[1], tokens)
    distance = (at[:, None] - torch.arange(tokens)).clamp(min=0)  # later keys have no probability
    slash_mass = torch.zeros(rows.heads, tokens, dtype=seen.dtype)
    slash_mass.scatter_add_(1, distance.flatten().expand(rows.heads, -1), seen.flatten(1))
    slash_mass[:, 0] = math.inf  # every query sees itself
    vertical, slash = (mass.topk(tokens, -1).indices for mass in (seen.sum(1), slash_mass))
    lines = tokens if budget >= tokens else max(1, budget // BLOCK)
    mask = lines_mask(vertical[:, :lines], slash[:, :lines], tokens)
    while 2 * lines <= tokens:
        lines *= 2
        more = lines_mask(vertical[:, :lines], slash[:, :lines], tokens)
        if int(more.sum(-1).max()) > budget:
            break
        mask = more
    return mask


def lines_mask(vertical: torch.Tensor, slash: torch.Tensor, tokens: int) -> torch.Tensor:
    """bool [heads, T, T] of columns and distances, int64 [heads, lines], as the operator makes blocks of them."""
    columns = vertical.sort(-1).values.int()
    distances = slash.sort(-1, descending=True).values.int()
    length = torch.tensor([tokens], dtype=torch.int32)
    made = convert_vertical_slash_indexes(length, length, columns[None], distances[None], tokens, BLOCK, BLOCK)
    counts, offsets, column_counts, single = (each[0] for each in made)
    mask = torch.zeros(len(vertical), tokens, tokens, dtype=torch.bool)
    for head in range(len(vertical)):
        for row in range(counts.shape[1]):
            queries = slice(row * BLOCK, (row + 1) * BLOCK)
            for first in offsets[head, row, : int(counts[head, row])].tolist():
                mask[head, queries, max(first, 0) : max(first + BLOCK, 0)] = True
            mask[head, queries, single[head, row, : int(column_counts[head, row])].long()] = True
    return mask & causal(tokens)


def by_place(rows: Rows, scores: torch.Tensor, budget: int) -> torch.Tensor:
    """The first SINKS keys and the latest ones."""
    distance = torch.arange(rows.tokens)[:, None] - torch.arange(rows.tokens)
    first = min(SINKS, max(0, budget - 1))
    kept = (distance < budget - first) | (torch.arange(rows.tokens) < first)
    return (kept & causal(rows.tokens)).expand(rows.heads, -1, -1)


def _of_scores(width: float, rows: Rows) -> float:
    """FLOPs of one query's products with all keys of its sequence, of `width` numbers, on average."""
    return 2 * width * (rows.tokens + 1) / 2


RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(
            "top_k",
            "top k",
            "the largest true logits, per head: no choice of so many keys has more probability; it costs dense scores",
            "the bound that indexers are measured by",
            true_logits,
            by_token,
            lambda rows: (rows.key_bytes * (rows.tokens + 1) / 2, _of_scores(rows.q.shape[2], rows) * rows.heads),
        ),
        Rule(
            "dsa",
            "DSA indexer",
            "Σ relu(q · k) over heads in FP8, one choice for all heads; not trained here: the keys' "
            f"principal directions, {INDEX_DIM} at most, stand for its projections",
            "DeepSeek-V3.2; sglab.kernels.fp8_mqa_logits",
            indexer_scores,
            by_token,
            lambda rows: ((INDEX_DIM + 4) * (rows.tokens + 1) / 2, _of_scores(INDEX_DIM, rows) * rows.heads),
        ),
        Rule(
            "nsa",
            "NSA blocks",
            f"blocks of {BLOCK} keys by the probability of their mean key, summed over heads; the first block and the "
            "query's own always; NSA's trained compression is a mean here, and its sliding window is left out",
            "arXiv 2502.11089",
            block_scores,
            by_block,
            lambda rows: (
                rows.key_bytes * (rows.tokens + 1) / 2 / BLOCK,
                _of_scores(rows.q.shape[2], rows) * rows.heads / BLOCK,
            ),
        ),
        Rule(
            "double_sparsity",
            "double sparsity",
            f"the heaviest channels of each head, {HEAVY_CHANNELS} at most, score every key; each head chooses for "
            "itself; calibrated on this prompt",
            "arXiv 2408.07092",
            heavy_scores,
            by_token,
            lambda rows: (
                2 * heavy_channels(rows) * rows.heads * (rows.tokens + 1) / 2,
                _of_scores(heavy_channels(rows), rows) * rows.heads,
            ),
        ),
        Rule(
            "vertical_slash",
            "vertical-slash",
            f"keys and distances that the last {LOOKED_AT} queries look at, as blocks of {BLOCK} and columns; chosen "
            "once for all queries of a prompt",
            "MInference, arXiv 2407.02490; sglab.kernels.convert_vertical_slash_indexes",
            last_probabilities,
            by_line,
            lambda rows: (
                float(rows.key_bytes),
                2 * rows.q.shape[2] * rows.heads * min(LOOKED_AT, rows.tokens),
            ),
        ),
        Rule(
            "recent",
            "sinks and recent",
            f"the first {SINKS} keys and the latest: nothing is scored",
            "StreamingLLM, arXiv 2309.17453",
            nothing,
            by_place,
            lambda rows: (0.0, 0.0),
        ),
    )
}
"""Name -> rule."""
