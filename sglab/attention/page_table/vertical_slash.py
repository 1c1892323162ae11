"""Sparse prompts of dual chunk attention: each head sees a few keys (vertical lines of its scores) and a few distances
(slashes), chosen by what the last queries of a chunk attend to.

After SGLang 0.5.9 `dual_chunk_flashattention_backend.py`. Source: MInference, arXiv 2407.02490; Qwen2.5-1M, arXiv
2501.15383.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from sglab.attention.arithmetic.merging import Partial, merge_natural
from sglab.engine import BadArgumentError
from sglab.kernels import convert_vertical_slash_indexes_mergehead, sparse_attn_func

FIRST_KEYS = 30
"""Of a request, which every head sees."""
NEAREST = 100
"""Distances that every head sees, 0 included."""
WIDENED = (30, 130)
"""Models that were calibrated for 30 keys get 130."""
BLOCK = 64
"""Queries that share their lines, and keys of a slash's block."""
SPREAD = 5
"""Lines over a part of which none was chosen, since the kernel takes no empty list."""
NO_KEY, NO_DISTANCE = torch.iinfo(torch.int32).max, torch.iinfo(torch.int32).min

HeadSizes = list[tuple[int, int]]
"""Of each query head: keys, and distances."""


@dataclass(frozen=True)
class SparsePrompts:
    """When prompts are sparse, and how many lines each head has.

    Attributes:
        sizes: of each layer.
        threshold: requests of at most so many tokens, chunks to come included, are attended to densely.
        last_q: queries at a chunk's end that choose.
    """

    sizes: tuple[HeadSizes, ...]
    threshold: int
    last_q: int

    @classmethod
    def of(cls, config: Sequence[Mapping[Any, Sequence[Any]]], threshold: int, last_q: int) -> SparsePrompts:
        """
        Args:
            config: a model's sparse_attention_config: of each layer by head ("vertical_and_slash", keys, distances, …).

        Raises:
            BadArgumentError: another pattern, or a number that cannot be.
        """
        name, remedy = "sparse_attention_config", "Pass the model's dual_chunk_attention_config."
        sizes = []
        for layer, heads in enumerate(config):
            of_heads = []
            for head in range(len(heads)):
                given = heads.get(head, heads.get(str(head)))
                sized = isinstance(given, (list, tuple)) and len(given) >= 3
                if not (given and sized and given[0] == "vertical_and_slash" and all(map(_is_size, given[1:3]))):
                    expected = f"('vertical_and_slash', keys, distances) for head {head} of layer {layer}"
                    raise BadArgumentError(name, expected, repr(given), remedy)
                of_heads.append((WIDENED[1] if given[1] == WIDENED[0] else given[1], given[2]))
            sizes.append(of_heads)
        for argument, value in (("sparse_attention_threshold", threshold), ("sparse_attention_last_q", last_q)):
            if value < (argument == "sparse_attention_last_q"):
                raise BadArgumentError(argument, "a number of tokens", repr(value), remedy)
        return cls(tuple(sizes), threshold, last_q)

    def layer(self, number: int, heads: int, first: int) -> HeadSizes:
        """
        Args:
            heads, first: how many query heads this rank has, and the number of its first.

        Raises:
            BadArgumentError: the configuration ends before.
        """
        of_heads = self.sizes[number][first : first + heads] if number < len(self.sizes) else []
        if len(of_heads) != heads:
            expected = f"heads {first} to {first + heads - 1} of layer {number}"
            raise BadArgumentError("sparse_attention_config", expected, "none of them", "Pass one entry per head.")
        return of_heads


@dataclass(frozen=True)
class Span:
    """New tokens of one request in one chunk.

    Attributes:
        row: of its first token among the batch's.
        begin, end: its positions.
        chunk, near: where its chunk begins, and the one before; both 0 in the first chunk.
        slots: [end], of all keys up to it.
    """

    row: int
    begin: int
    end: int
    chunk: int
    near: int
    slots: torch.Tensor

    @property
    def rows(self) -> slice:
        return slice(self.row, self.row + self.end - self.begin)


@dataclass(frozen=True)
class Choice:
    """How a layer chooses.

    Attributes:
        sizes: how much each of this rank's query heads sees.
        scale: of its scores.
        last_q: queries that choose.
        implementation: of the operators.
    """

    sizes: HeadSizes
    scale: float
    last_q: int
    implementation: str


@dataclass(frozen=True)
class Part:
    """Keys `first` to `first + count` of a span, which one of the three queries sees."""

    first: int
    count: int
    causal: bool


@dataclass(frozen=True)
class Lines:
    """What one head sees: int64 positions of keys, and distances from key to query."""

    keys: torch.Tensor
    distances: torch.Tensor


def parts_of(span: Span) -> Iterator[Part]:
    """The query's own chunk, the one before, all earlier ones."""
    yield Part(span.chunk, span.end - span.chunk, True)
    if span.chunk:
        yield Part(span.near, span.chunk - span.near, False)
    if span.near:
        yield Part(0, span.near, False)


def attend_span(
    queries: Sequence[torch.Tensor],
    critical: Sequence[torch.Tensor],
    keys: torch.Tensor,
    values: torch.Tensor,
    span: Span,
    choice: Choice,
) -> torch.Tensor:
    """O of a span [queries, heads, v_head_dim].

    Args:
        queries: what the keys of its own chunk, of the one before and of all earlier ones are asked with, [queries,
            heads, dim].
        critical: likewise what chooses among them.
        keys, values: [end, kv_heads, dim] of the request.
    """
    lines = chosen_lines(critical, keys, span, choice)
    merged: Partial | None = None
    for query, part in zip(queries, parts_of(span), strict=False):
        seen = slice(part.first, part.first + part.count)
        inside = [lines_in(part, span, each) for each in lines]
        found = _attend(query, keys[seen], values[seen], inside, part.causal, choice)
        merged = found if merged is None else merge_natural(merged, found, choice.implementation)
    assert merged is not None
    return merged[0]


def chosen_lines(critical: Sequence[torch.Tensor], keys: torch.Tensor, span: Span, choice: Choice) -> list[Lines]:
    """Of each head the lines with the most of the last queries' softmax, beside those that all see."""
    count = min(span.end - span.begin, choice.last_q)
    group = critical[0].shape[1] // keys.shape[1]
    scores: list[torch.Tensor] = []
    for query, part in zip(critical, parts_of(span), strict=False):
        near = keys[part.first : part.first + part.count].float().repeat_interleave(group, 1)
        scores.insert(0, torch.einsum("qhd,khd->hqk", query[-count:].float() * choice.scale, near))
    logits = torch.cat(scores, -1)
    ahead = torch.ones(count, count, dtype=torch.bool, device=logits.device).triu(1)
    logits[:, :, -count:] = logits[:, :, -count:].masked_fill(ahead, float("-inf"))
    seen = logits.softmax(-1)
    vertical, slash = seen.sum(1), seen.new_zeros(seen.shape[0], span.end)
    for i in range(count):
        position = span.end - count + i
        slash[:, : position + 1] += seen[:, i, : position + 1].flip(-1)
    vertical[:, :FIRST_KEYS] = float("inf")
    slash[:, :NEAREST] = float("inf")
    return [
        Lines(vertical[head].topk(min(most_keys, span.end)).indices, slash[head].topk(min(most, span.end)).indices)
        for head, (most_keys, most) in enumerate(choice.sizes)
    ]


def lines_in(part: Part, span: Span, lines: Lines) -> Lines:
    """The lines that cross a part, counted from its first key. Where it is not causal its queries count as if they
    began right behind its keys, and distances with them."""
    shift = 0 if part.causal else part.first + part.count - span.begin
    inside = (lines.keys >= part.first) & (lines.keys < part.first + part.count)
    keys, distances = lines.keys[inside] - part.first, lines.distances + shift
    distances = distances[(lines.distances < span.end - part.first) & (distances >= 0)]
    spread = torch.arange(0, part.count, max(1, part.count / SPREAD), device=keys.device).long()
    return Lines(keys if len(keys) else spread, distances if len(distances) else spread)


def _attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, inside: list[Lines], causal: bool, choice: Choice
) -> Partial:
    def int32(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=query.device)

    columns = _padded([each.keys.sort().values for each in inside], NO_KEY)[None]
    slashes = _padded([each.distances.sort(descending=True).values for each in inside], NO_DISTANCE)[None]
    counts = int32([len(each.keys) for each in inside]), int32([len(each.distances) for each in inside])
    lens, room = (int32([len(query)]), int32([len(keys)])), len(query)
    chosen = choice.implementation if choice.implementation in ("triton", "reference") else "auto"
    found = convert_vertical_slash_indexes_mergehead(
        *lens, columns, slashes, *counts, room, BLOCK, BLOCK, causal, implementation=chosen, check_values=False
    )
    q, k, v = (each.to(query.dtype)[None].contiguous() for each in (query, keys, values))
    result = sparse_attn_func(
        *(q, k, v, *found, choice.scale, causal),
        return_softmax_lse=True,
        implementation=chosen,
        check_values=False,
    )
    assert isinstance(result, tuple)
    out, lse = result
    return out[0], lse[0].T.contiguous()


def _is_size(size: Any) -> bool:
    return isinstance(size, int) and size >= 1


def _padded(lines: list[torch.Tensor], filler: int) -> torch.Tensor:
    padded = torch.full((len(lines), max(map(len, lines))), filler, dtype=torch.int32, device=lines[0].device)
    for row, line in zip(padded, lines, strict=True):
        row[: len(line)] = line
    return padded
