"""What the labs of decode attention share: batches, their truth in float64, and what wrong outputs tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sglab.labs.exercises import Run

from .kernel_marks import Report, close, failure

LOG2E = math.log2(math.e)


@dataclass(frozen=True)
class Attention:
    """A decode batch: keys (pages, page size, dim) that all query heads share, values, the first columns of them or
    their own, and what the right and the wrong outputs are."""

    q: Any
    k: Any
    v: Any
    page_table: Any
    seq_lens: Any
    scale: float

    def output(
        self,
        lens: Callable[[int], int] = lambda n: n,
        scale: Callable[[float], float] = lambda s: s,
        pages: Callable[[Any], Any] = lambda row: row,
        base: float = math.e,
        divide: bool = True,
        rope: bool = True,
    ) -> Any:
        """(requests, heads, value dim) float64. What is given differently is a wrong idea."""
        out = np.zeros((*self.q.shape[:2], self.v.shape[-1]))
        dim = self.q.shape[-1] if rope else self.v.shape[-1]
        for i, length in enumerate(self.seq_lens.tolist()):
            row = pages(self.page_table[i])
            keys, values = (part[row].reshape(-1, part.shape[-1]).astype(float) for part in (self.k, self.v))
            n = max(0, min(lens(length), len(keys)))
            s = self.q[i].astype(float)[:, :dim] @ keys[:n, :dim].T * scale(self.scale)
            if n:
                p = base ** (s - s.max(1, keepdims=True))
                out[i] = p @ values[:n] / (p.sum(1, keepdims=True) if divide else 1)
        return out


def batch(
    random: np.random.Generator, lens: Sequence[int], heads: int, dim: int, page: int, value_dim: int | None = None
) -> Attention:
    """float16, pages in random order, NaN in the pages of no request; `value_dim`: values are columns of the keys."""
    counts = [-(-n // page) for n in lens]
    table = np.zeros((len(lens), max(*counts, 1) + 1), np.int32)
    order = random.permutation(sum(counts) + 2)
    for i, count in enumerate(counts):
        table[i, :count] = order[sum(counts[:i]) :][:count]
    shape = (len(order), page, dim)
    k = random.standard_normal(shape).astype(np.float16)
    v = k[..., :value_dim] if value_dim else random.standard_normal(shape).astype(np.float16)
    q = random.standard_normal((len(lens), heads, dim)).astype(np.float16)
    return Attention(q, k, v, table, np.array(lens, np.int32), dim**-0.5)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no_scale": ({"scale": lambda s: 1.0}, "The scores are not multiplied with scale."),
    "scale_twice": ({"scale": lambda s: s * s}, "The scale is applied twice."),
    "base": ({"base": 2.0}, "exp2 needs scores in base 2: multiply the scale with log2(e)."),
    "base_up": ({"scale": lambda s: s * LOG2E}, "log2(e) belongs to exp2; with exp the scores must not carry it."),
    "not_divided": ({"divide": False}, "The output is divided by the sum of the probabilities."),
    "one_less": ({"lens": lambda n: n - 1}, "The last token is missing: the mask is position < seq_len."),
    "whole_pages": (
        {"lens": lambda n: -(-n // 16) * 16},
        "What is beyond seq_len on the last page counts, too: mask it.",
    ),
    "last_page": ({"lens": lambda n: n // 16 * 16}, "The last page, not full, is left out."),
    "pages_in_order": (
        {"pages": lambda row: np.arange(len(row))},
        "Pages are taken in the order of the pool: the page table says which are the request's.",
    ),
    "no_rope": ({"rope": False}, "Only a part of the dimensions takes part in the scores: the last ones are missing."),
}


def recognised_idea(runs: Sequence[Run], reports: Sequence[Report], tolerance: float, output: str = "out") -> str:
    """The idea whose outputs these are, in every run."""
    if any(map(failure, reports)):
        return ""
    right = [run.truth.output() for run in runs]
    for name, (options, _) in WRONG.items():
        wrong = [run.truth.output(**options) for run in runs]
        if all(close(one, other, tolerance) for one, other in zip(wrong, right, strict=True)):
            continue  # no idea for these inputs
        if all(_is(run, report, options, tolerance, output) for run, report in zip(runs, reports, strict=True)):
            return name
    return ""


def _is(run: Run, report: Report, options: dict[str, Any], tolerance: float, output: str) -> bool:
    with np.errstate(all="ignore"):
        return close(report["buffers"][output], run.truth.output(**options), tolerance)
