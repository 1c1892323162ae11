"""Notebook "Sparse attention": the shipped model's own attention over fewer keys, chosen as servers choose them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from sglab.kernels import act_quant, fp8_mqa_logits
from sglab.kernels.vertical_slash.reference import one_row

from .code_question import CodeQuestion
from .mla_cache import read
from .question import Question

if TYPE_CHECKING:
    from sglab.serving import Engine

LATENT, KEY, INDEX_DIM = 512, 576, 128
DENSE_BYTES, RECORD_BYTES, INDEX_BYTES = 2 * KEY, 656, INDEX_DIM + 4
"""Of a token: a key of 576 bfloat16; FlashMLA's FP8 record; an index key of 128 e4m3 with a float32 scale."""


@dataclass(frozen=True)
class Attention:
    """One layer's absorbed attention over a text; float64.

    Attributes:
        q: [tokens, heads, 576], latent and rotary part.
        keys: [tokens, 576]; the first 512 are the value, too.
        scale: of the scores.
    """

    q: torch.Tensor
    keys: torch.Tensor
    scale: float

    def weights(self, token: int = -1) -> torch.Tensor:
        """[heads, keys up to it]: what one token's heads give to each token before it and to itself."""
        seen = len(self.keys[: token % len(self.keys) + 1])
        return (self.q[token] @ self.keys[:seen].T * self.scale).softmax(-1)

    def output(self, chosen: torch.Tensor | None = None, token: int = -1) -> torch.Tensor:
        """[heads, 512], over all keys that the token sees or over the chosen positions alone."""
        keys = self.keys[: token % len(self.keys) + 1]
        keys = keys if chosen is None else keys[chosen.long()]
        return (self.q[token] @ keys.T * self.scale).softmax(-1) @ keys[:, :LATENT]

    def error(self, chosen: torch.Tensor, token: int = -1) -> float:
        """How far the output over chosen positions is from the whole one, as a share of its size."""
        whole = self.output(token=token)
        return float((self.output(chosen, token) - whole).norm() / whole.norm())

    def best(self, count: int, token: int = -1) -> torch.Tensor:
        """The positions that get most weight, added up over the heads: what an ideal indexer would choose."""
        total = self.weights(token).sum(0)
        return total.topk(min(count, len(total))).indices.sort().values


def attention(engine: Engine, text: str, layer: int = 1) -> Attention:
    """Has the model read `text`; its queries are absorbed, so that they meet the cached rows themselves."""
    found = read(engine, text, layer)
    q = torch.cat((torch.einsum("qhd,hdc->qhc", found.q_nope, found.weights.w_uk), found.q_rope), -1)
    return Attention(q, found.cache, found.scale)


@dataclass(frozen=True)
class Indexer:
    """A small attention that chooses for the large one: keys of 128 numbers in e4m3, with a scale each.

    DeepSeek-V3.2 trains its indexer. The shipped model has none, so this one is made of its keys: their 128 strongest
    directions.

    Attributes:
        q, k: e4m3, [heads, 128] of the last token and [tokens, 128].
        k_scale: float32 [tokens].
        weights: float32 [1, heads], with q's scales in them.
    """

    q: torch.Tensor
    k: torch.Tensor
    k_scale: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def of(cls, given: Attention) -> Indexer:
        directions = torch.linalg.svd(given.keys, full_matrices=False).Vh[:INDEX_DIM]
        padded = torch.zeros(INDEX_DIM, KEY, dtype=torch.float64)
        padded[: len(directions)] = directions
        k, k_scale = act_quant((given.keys @ padded.T).float())
        q, q_scale = act_quant((given.q[-1] @ padded.T).float())
        return cls(q, k, k_scale.flatten(), q_scale.flatten()[None] / len(q))

    def logits(self) -> torch.Tensor:
        """float32 [tokens]: Σ over heads of weight · relu(q · k) · scale, as DeepGEMM's kernel has it."""
        ends = torch.tensor([0], dtype=torch.int32), torch.tensor([len(self.k)], dtype=torch.int32)
        return fp8_mqa_logits(self.q[None], (self.k, self.k_scale), self.weights, *ends)[0]


# ---- questions ----


def tokens_for(given: Attention, share: float) -> Question:
    """The fewest keys that hold `share` of the last token's weight, averaged over its heads."""

    def truth() -> int:
        total = given.weights().mean(0).sort(descending=True).values.cumsum(0)
        return int((total < share).sum()) + 1

    return Question(
        truth=truth,
        because="{truth}: most keys hardly count. That is what every method here lives on.",
        hint="given.weights().mean(0), sorted, largest first, and summed: where does the sum pass the share?",
        ideas=(
            (
                int((given.weights().mean(0).sort(descending=True).values.cumsum(0) < share).sum()),
                "With so many the sum is still below. One more passes it.",
            ),
            (len(given.keys), "Those are all keys. Fewer hold most of the weight."),
        ),
    )


def bytes_ratio(tokens: int, topk: int) -> Question:
    """How many times fewer bytes a decode reads per layer: an indexer over all, records of the chosen."""
    return Question(
        truth=lambda: tokens * DENSE_BYTES / (tokens * INDEX_BYTES + min(topk, tokens) * RECORD_BYTES),
        because="{truth:.2f}: the indexer still looks at every token, and its 132 bytes are most of what is read.",
        hint="Dense: tokens · 1,152. Sparse: tokens · 132 for the indexer, and 656 for each chosen one.",
        ideas=(
            (
                tokens / topk,
                "That compares numbers of keys. The indexer reads 132 bytes of every token, chosen or not.",
            ),
            (
                tokens * DENSE_BYTES / (topk * RECORD_BYTES),
                "That leaves out the indexer: it reads 132 bytes of every token.",
            ),
            (DENSE_BYTES / INDEX_BYTES, "Nearly: the records of the chosen keys are read as well."),
        ),
    )


def recall(given: Attention, chosen: torch.Tensor) -> Question:
    """The share of the best keys that an indexer has found."""

    def truth() -> float:
        best = set(given.best(len(chosen)).tolist())
        return len(best & set(chosen.tolist())) / len(best)

    return Question(
        truth=truth,
        because="{truth:.2f}: what it misses are keys of little weight, so the error is smaller than this suggests.",
        hint="Compare two sets: chosen, and given.best(len(chosen)). Order does not matter.",
        ideas=(
            (
                len(set(given.best(len(chosen)).tolist()) & set(chosen.tolist())),
                "So many of them. Asked for is a share.",
            ),
            (1.0, "The indexer is an approximation: compare the two sets."),
        ),
    )


def without_a_key() -> Question:
    """[largest element of O, LSE] that FlashMLA's sparse decode leaves where every index is −1."""

    def truth() -> list[float]:
        from sglab.kernels import flash_mla_with_kvcache, quantize_k_cache

        records = quantize_k_cache(torch.randn(1, 64, 1, KEY).bfloat16())
        unread = torch.zeros(1, dtype=torch.int32)
        out, lse = flash_mla_with_kvcache(
            *(torch.randn(1, 1, 4, KEY).bfloat16(), records, unread[None], unread, LATENT, unread),
            is_fp8_kvcache=True,
            indices=torch.full((1, 1, 64), -1, dtype=torch.int32),
        )
        return [float(out.abs().max()), float(lse[0, 0, 0])]

    return Question(
        truth=truth,
        because="{truth}: nothing was added up, so O = 0; and FlashMLA's LSE is +inf here; the dense kernel's is −inf. "
        "Merge the two without looking, and the whole output is lost.",
        hint='Two numbers, such as [1.5, float("nan")]. The docstring of sglab.kernels.flash_mla_with_kvcache says it.',
        ideas=(
            (
                [0.0, -math.inf],
                "O is right. An empty sum has the logarithm −∞, and the dense kernel says so; this one does not.",
            ),
            (
                [math.nan, math.nan],
                "0 / 0 would be NaN, so the kernel asks first whether anything was added up. What does it write then?",
            ),
        ),
    )


def blocks_of(slashes: list[int], row: int, tokens: int, rows_of: int = 128, keys_of: int = 64) -> Question:
    """Blocks of keys that slashes give for one row of queries."""
    return Question(
        truth=lambda: len(one_row(row, tokens, tokens, [0], slashes, rows_of, keys_of, True)[0]),
        because="{truth}. The result has room for one block per slash: sgl-kernel checks no bounds and writes the "
        "others into the next row. sglab refuses rows that are wider than blocks.",
        hint="Each slash is a range as long as the row has queries. How many blocks of 64 keys is that, if two touch?",
        ideas=(
            (
                len(slashes),
                "One per slash is the room that there is. But a row of 128 queries sees 128 keys of a slash.",
            ),
        ),
    )


# ---- exercises ----


def _label_topk(q: torch.Tensor, k: torch.Tensor, channels: torch.Tensor, count: int) -> list[int]:
    return sorted((k[:, channels] @ q[channels]).topk(count).indices.tolist())


def _labels(random: torch.Generator) -> list[list[Any]]:
    def draw(keys: int, dim: int, some: int, count: int) -> list[Any]:
        q, k = torch.randn(dim, generator=random), torch.randn(keys, dim, generator=random)
        return [q, k, torch.randperm(dim, generator=random)[:some], count]

    return [draw(6, 4, 2, 2), draw(40, 16, 4, 8), draw(200, 64, 8, 20)]


def label_topk() -> CodeQuestion:
    """The exercise of choosing by a few channels: label_topk(q, k, channels, count) -> ascending positions."""
    return CodeQuestion(
        function="label_topk",
        cases=_labels,
        truth=_label_topk,
        because="Eight of 64 channels are an eighth of the bytes that the choice has to read.",
        ideas=(
            (lambda q, k, c, n: sorted((k @ q).topk(n).indices.tolist()), "Only the chosen channels are read."),
            (lambda q, k, c, n: (k[:, c] @ q[c]).topk(n).indices.tolist(), "Ascending positions, please: sort them."),
            (
                lambda q, k, c, n: sorted((k[:, c] @ q[c]).abs().topk(n).indices.tolist()),
                "A strongly negative score means: not this one. No abs.",
            ),
            (
                lambda q, k, c, n: sorted((k[:, : len(c)] @ q[: len(c)]).topk(n).indices.tolist()),
                "channels are numbers of columns, not how many come first.",
            ),
        ),
    )


def _transform(positions: torch.Tensor, table: torch.Tensor, page_size: int) -> torch.Tensor:
    safe = positions.clamp(min=0)
    slots = table[safe // page_size] * page_size + safe % page_size
    return torch.where(positions < 0, -1, slots)


def _positions(random: torch.Generator) -> list[list[Any]]:
    def draw(pages: int, page_size: int, count: int) -> list[Any]:
        table = torch.randperm(pages + 5, generator=random)[:pages] + 1
        positions = torch.randperm(pages * page_size, generator=random)[:count]
        positions[count - count // 3 :] = -1
        return [positions, table, page_size]

    return [draw(2, 4, 3), draw(4, 16, 12), draw(7, 64, 60)]


def page_transform() -> CodeQuestion:
    """The exercise of turning positions into slots: page_transform(positions, page_table, page_size)."""
    return CodeQuestion(
        function="page_transform",
        cases=_positions,
        truth=_transform,
        because="−1 stays −1: a request with fewer tokens than topk names none for the rest.",
        ideas=(
            (
                lambda p, t, n: t[p.clamp(min=0) // n] * n + p.clamp(min=0) % n,
                "−1 means that nothing was chosen: it must stay −1.",
            ),
            (
                lambda p, t, n: t[p // n] * n + p % n,
                "−1 counts from the end in Python. Here it means: nothing, and stays −1.",
            ),
            (lambda p, t, n: torch.where(p < 0, -1, t[p.clamp(min=0) // n]), "That is the page; the slot lies in it."),
            (
                lambda p, t, n: torch.where(p < 0, -1, t[p.clamp(min=0) // n] + p.clamp(min=0) % n),
                "A page number counts pages: its first slot is page · page_size.",
            ),
        ),
    )


def average_error(given: Attention, count: int, tokens: int = 16) -> float:
    """Of the best `count` keys, over the last tokens of the text (root of the mean square)."""
    errors = [given.error(given.best(count, token), token) for token in range(-tokens, 0)]
    return math.sqrt(sum(each**2 for each in errors) / len(errors))
