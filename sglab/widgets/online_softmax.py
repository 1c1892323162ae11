"""OnlineSoftmax: one head's scores arrive tile by tile; m, d and O evolve; splits leave partials, which merge."""

from __future__ import annotations

import importlib.util
from typing import Any

import traitlets

from sglab.engine import Batch
from sglab.engine.errors import BadArgumentError
from sglab.trace.online_softmax import OnlineSoftmaxRun, record_online_softmax

from .base import Widget, asset, command

MAX_STEPS = 256
"""Tiles that are recorded at most: a saved page then stays small, and more could not be told apart."""
MAX_SPLITS = 32
KERNEL_TILE = 64
"""Keys per step of the grouped kernel with 16-bit values."""


class OnlineSoftmax(Widget):
    """Online softmax on one head of a decode batch: tiles, rescaling, partials, merges, and how they go wrong.

    batch: what `sglab.decode_batch` returns; read when the widget is made and when something is changed in it.
    request, head: whose scores.
    num_splits: splits asked for, 1 to 32; each gets a multiple of 32 tokens, so the last may stay empty.
    tile: keys per step; None takes the kernel's 64, doubled until 256 steps suffice.
    scale_by: multiplies the batch's sm_scale: large scores show what the maximum is subtracted for.
    implementation: of `decode_attention_fwd`; None runs the Triton kernels where Triton is installed.

    Raises:
        TypeError, BadArgumentError: naming the argument.
    """

    bundle = "online_softmax"
    format = 1
    _esm = asset("online_softmax.js")
    _css = asset("online_softmax.css")

    question = traitlets.Dict(help="request, head, num_splits, tile, scale_by").tag(sync=True)
    run = traitlets.Dict(help="what ran, in words and numbers").tag(sync=True)

    def __init__(
        self,
        batch: Batch,
        request: int = 0,
        head: int = 0,
        *,
        num_splits: int = 4,
        tile: int | None = None,
        scale_by: float = 1.0,
        implementation: str | None = None,
    ) -> None:
        if not isinstance(batch, Batch):
            raise TypeError(f"batch must be what sglab.decode_batch returns; got {type(batch).__name__}")
        if not batch.forward_mode.is_decode():
            raise BadArgumentError(
                "batch", "a decode batch, one query per request", batch.forward_mode.name, "Use sglab.decode_batch."
            )
        super().__init__()
        self.batch = batch
        has_triton = importlib.util.find_spec("triton") is not None
        self.implementation = implementation or ("triton" if has_triton else "reference")
        self._record(
            {"request": request, "head": head, "num_splits": num_splits, "tile": tile, "scale_by": float(scale_by)}
        )

    @property
    def recorded(self) -> OnlineSoftmaxRun:
        """What is shown, as tensors."""
        return self._recorded

    @command
    def edit(self, **changes: Any) -> int:
        """Record again with other values of the constructor's keywords; returns the revision that shows them.

        A refused change leaves everything as it was.
        """
        unknown = set(changes) - set(self.question)
        if unknown:
            raise TypeError(f"edit takes {', '.join(self.question)}; got {', '.join(sorted(unknown))}")
        self._record({**self.question, **changes})
        return self.revision

    def _record(self, question: dict[str, Any]) -> None:
        question = _checked(self.batch, question)
        self.batch.check()
        recorded = record_online_softmax(
            self.batch,
            question["request"],
            question["head"],
            question["num_splits"],
            question["tile"],
            self.batch.sm_scale * question["scale_by"],
            self.implementation,
        )
        self._recorded = recorded
        self.publish(_tensors(recorded), question=question, run=_run(self.batch, recorded), header=self._header())

    def _header(self) -> dict[str, Any]:
        run, batch = self._recorded, self.batch
        subject = (
            f"request {run.request}, head {run.head} of {batch.num_heads}, {len(run.scores):,} keys, "
            f"{run.splits} split{'s' * (run.splits > 1)}, tiles of {run.tile}"
        )
        return {"title": "Online softmax", "subject": subject, "badge": _badge(run)}


def _checked(batch: Batch, question: dict[str, Any]) -> dict[str, Any]:
    request = _integer("request", question["request"], 0, batch.batch_size - 1, "Requests are numbered in batch order.")
    head = _integer("head", question["head"], 0, batch.num_heads - 1, "Heads of this rank are numbered from 0.")
    splits = _integer("num_splits", question["num_splits"], 1, MAX_SPLITS, "More could not be told apart.")
    tokens, tile = len(batch.slots(request)), question["tile"]
    per_split = -(-tokens // splits)
    if tile is None:
        tile = KERNEL_TILE
        while splits * (-(-per_split // tile) + 1) > MAX_STEPS:
            tile *= 2
    least = -(-tokens // MAX_STEPS)
    tile = _integer("tile", tile, least, 1 << 20, f"{tokens} keys are shown in at most {MAX_STEPS} steps.")
    scale = float(question["scale_by"])
    if not 0 < scale <= 1024:
        raise BadArgumentError("scale_by", "a factor above 0, at most 1024", scale, "1 is the batch's own scale.")
    return {"request": request, "head": head, "num_splits": splits, "tile": tile, "scale_by": scale}


def _integer(name: str, value: Any, least: int, most: int, remedy: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadArgumentError(name, f"an integer from {least} to {most}", value, remedy)
    return value


def _badge(run: OnlineSoftmaxRun) -> dict[str, str]:
    machine = run.choice.launches[0].route if run.choice.launches else "float64 reference"
    first = "Stage 1 and 2 of decode_attention_fwd ran for this request and the heads that share its CTA. "
    return {
        "text": f"decode_attention_fwd: {machine} · tiles: torch",
        "title": (
            f"{first}Partials and output are theirs ({run.choice.implementation}, {machine}). What a kernel keeps in "
            "registers after each tile was recorded by running its recurrence again in torch, float32, with the "
            f"kernel's rounding; both end within {run.agreement:.0e} of each other. Merges and their errors are "
            "computed on this page, in float32, against attention in float64."
        ),
    }


def _run(batch: Batch, run: OnlineSoftmaxRun) -> dict[str, Any]:
    return {
        "batchSize": batch.batch_size,
        "numHeads": batch.num_heads,
        "dtype": str(batch.dtype).removeprefix("torch."),
        "tensorCores": batch.num_heads > batch.num_kv_heads,
        "implementation": run.choice.implementation,
        "machine": run.choice.launches[0].route if run.choice.launches else "",
        "agreement": run.agreement,
        "maxSplits": MAX_SPLITS,
    }


def _tensors(run: OnlineSoftmaxRun) -> dict[str, Any]:
    tensors: dict[str, Any] = {
        "scores": run.scores,
        "tiles": run.tiles,
        "partial_o": run.partial_o,
        "partial_lse": run.partial_lse,
        "kernel_o": run.o.float(),
        "kernel_lse": run.lse.view(1),
        "true_o": run.true_o,
        "true_lse": run.true_lse,
    }
    for name, states in run.states.items():
        tensors[f"{name}.state"], tensors[f"{name}.o"] = states.columns(), states.o
    return tensors
