"""SparseAttention: which keys a rule chooses for which query of a prompt, what that saves and how far the output is."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import traitlets

from sglab.attention.sparse.choices import RULES, Rows
from sglab.attention.sparse.comparison import Outcome, budgets, compare
from sglab.engine import BadArgumentError, arguments
from sglab.serving.execution import torch_threads
from sglab.workbench.recorders.attention import AttentionRun, record_attention

from .base import Widget, asset, command

WHERE = (
    "Queries, keys and values are those of the model's own layer, run over this prompt. Probabilities, choices and "
    "errors were computed from them in float64; bytes and FLOPs are counted."
)

ONE_THREADS_PAIRS = 1 << 20
"""Of heads, queries and keys: fewer are compared sooner by one thread than by several that wait for each other."""


class SparseAttention(Widget):
    """Sparse attention beside dense attention, on one layer of a model that ran.

    Attributes:
        run: what was recorded.
        outcomes: rule -> an `Outcome` per budget, of the layer that is shown.

    Args:
        run: what `sglab.workbench.record_attention` returns, or a prompt, which the shipped model then reads.
        layer: which of the recorded layers, counted from 0; their numbers in the model are `run.numbers`.

    Raises:
        BadArgumentError, naming the argument.
    """

    bundle = "sparse_attention"
    format = 1
    _module = asset("sparse_attention.js")
    _css = asset("sparse_attention.css")

    shown = traitlets.Dict(help="layer; layers, heads and tokens there are; the layers' numbers in the model").tag(
        sync=True
    )
    texts: traitlets.List[Any] = traitlets.List(help="of each token").tag(sync=True)
    budgets: traitlets.List[Any] = traitlets.List(help="keys that a query may attend to, step by step").tag(sync=True)
    rules: traitlets.List[Any] = traitlets.List(help="each rule: name, words, error and keys by budget, cost").tag(
        sync=True
    )

    def __init__(self, run: AttentionRun | str, layer: int = 0) -> None:
        recorded = record_attention(run) if isinstance(run, str) else run
        if not isinstance(recorded, AttentionRun):
            expected = "what sglab.workbench.record_attention returns, or a prompt"
            raise BadArgumentError("run", expected, type(run).__name__, "Record one.")
        arguments.integer("layer", layer, 0, len(recorded.layers) - 1, f"{len(recorded.layers)} were recorded.")
        super().__init__()
        self.run = recorded
        self._found: dict[int, dict[str, list[Outcome]]] = {}
        self._show(layer)

    @property
    def outcomes(self) -> dict[str, list[Outcome]]:
        return self._of(self.shown["layer"])

    @command
    def show(self, layer: int) -> int:
        """Shows another layer; answers with the revision that has it."""
        arguments.integer("layer", layer, 0, len(self.run.layers) - 1, f"{len(self.run.layers)} were recorded.")
        self._show(layer)
        return self.revision

    def _of(self, layer: int) -> dict[str, list[Outcome]]:
        if layer not in self._found:
            rows = self.run.layers[layer]
            pairs = rows.heads * rows.tokens**2
            with torch_threads(1 if pairs <= ONE_THREADS_PAIRS else None):
                self._found[layer] = {name: compare(rows, name) for name in RULES}
        return self._found[layer]

    def _show(self, layer: int) -> None:
        rows, found = self.run.layers[layer], self._of(layer)
        tensors: dict[str, Any] = {"probabilities": rows.probabilities().float()}
        for name, outcomes in found.items():
            tensors[f"{name}.chosen"] = _bits(outcomes)
            tensors[f"{name}.error"] = torch.stack([each.error for each in outcomes]).float()
            tensors[f"{name}.mass"] = torch.stack([each.mass for each in outcomes]).float()
        model, sizes = self.run.described()
        self.publish(
            tensors,
            shown={
                "layer": layer,
                "layers": len(self.run.layers),
                "numbers": self.run.numbers,
                "heads": rows.heads,
                "tokens": rows.tokens,
                "rowBytes": rows.row_bytes,
                "kvHeads": rows.kv_heads,
            },
            texts=self.run.texts or [str(token) for token in self.run.tokens],
            budgets=budgets(rows.tokens),
            rules=[_rule(name, rows, outcomes) for name, outcomes in found.items()],
            header={
                "title": "Sparse attention",
                "subject": f"{model}, layer {self.run.numbers[layer]} · {sizes}",
                "badge": {"text": "recorded · float64", "title": WHERE},
            },
        )


def _bits(outcomes: list[Outcome]) -> np.ndarray:
    """int32 [heads, T, T]: bit s of a pair is set where it is chosen at step s."""
    bits = np.zeros(outcomes[0].mask.shape, np.int32)
    for step, each in enumerate(outcomes):
        bits |= each.mask.numpy().astype(np.int32) << step
    return bits


def _rule(name: str, rows: Rows, outcomes: list[Outcome]) -> dict[str, Any]:
    rule = RULES[name]
    index_bytes, index_flops = rule.cost(rows)
    return {
        "name": name,
        "title": rule.title,
        "about": rule.about,
        "source": rule.source,
        "error": [each.total_error for each in outcomes],
        "mass": [float(each.mass.mean()) for each in outcomes],
        "keys": [float(each.keys.double().mean()) for each in outcomes],
        "rows": [float(each.rows.mean()) for each in outcomes],
        "indexBytes": index_bytes,
        "indexFlops": index_flops,
    }
