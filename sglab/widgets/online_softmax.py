"""OnlineSoftmax: one head's scores arrive tile by tile; m, d and O evolve; splits leave partials, which merge."""

from __future__ import annotations

import importlib.util
import operator
from numbers import Real
from typing import Any

import torch
import traitlets

from sglab.engine.errors import BadArgumentError
from sglab.planning.mla_dims import HEAD_DIM, LATENT_DIM, NUM_HEADS
from sglab.words import plural
from sglab.workbench import Batch
from sglab.workbench.recorders.online_softmax import KERNELS, ORDERS, OnlineSoftmaxRun, record_online_softmax

from .base import Widget, asset, command
from .changes import Versions

MAX_STEPS = 256
"""Tiles that are recorded at most: a saved page then stays small, and more could not be distinguished."""
MAX_SPLITS = 32
KERNEL_TILE = {"decode_attention_fwd": 64, "mla_decode_sm100": 128}
"""Keys per step: of the grouped kernel with 16-bit values, and of the SM100 MLA decode."""


class OnlineSoftmax(Widget):
    """Online softmax on one head of a decode batch: tiles, rescaling, partials, merges, and how they go wrong.

    Args:
        batch: what `sglab.decode_batch` returns, of a layer whose queries see all keys of their request, without sinks;
            read when the widget is made and when something is changed in it.
        request, head: whose scores.
        num_splits: requested splits, 1 to 32; each gets a multiple of 32 tokens, so the last may stay empty.
        tile: keys per step; None takes the kernel's own, doubled until 256 steps suffice.
        scale_by: multiplies the batch's sm_scale: large scores show what the maximum is subtracted for.
        order: of the keys: "stored", "rising" or "falling" by score, or "masked", where the first split's scores are
            −inf.
        kernel: whose partials: "decode_attention_fwd", or "mla_decode_sm100" on the emulator, for an MLA batch of 16
            bits.
        implementation: of `decode_attention_fwd`; None runs the Triton kernels where Triton is installed.

    Raises:
        TypeError, BadArgumentError: naming the argument.
    """

    bundle = "online_softmax"
    format = 1
    _module = asset("online_softmax.js")
    _css = asset("online_softmax.css")

    question = traitlets.Dict(help="the constructor's keywords").tag(sync=True)
    run = traitlets.Dict(help="what ran, in words and numbers").tag(sync=True)
    place = traitlets.Dict(help="where the reader is: a saved page opens there").tag(sync=True)
    progress = traitlets.Float(1.0, help="share of the recording that is done").tag(sync=True)

    def __init__(
        self,
        batch: Batch,
        request: int = 0,
        head: int = 0,
        *,
        num_splits: int = 4,
        tile: int | None = None,
        scale_by: float = 1.0,
        order: str = "stored",
        kernel: str = "decode_attention_fwd",
        implementation: str | None = None,
    ) -> None:
        if not isinstance(batch, Batch):
            raise TypeError(f"batch must be what sglab.decode_batch returns; got {type(batch).__name__}")
        if not batch.forward_mode.is_decode():
            raise BadArgumentError(
                "batch", "a decode batch, one query per request", batch.forward_mode.name, "Use sglab.decode_batch."
            )
        if batch.batch_size == 0:
            raise BadArgumentError("batch", "at least one request", "none", "Allocate one with batch.allocate.")
        super().__init__()
        self.batch = batch
        has_triton = importlib.util.find_spec("triton") is not None
        self.implementation = implementation or ("triton" if has_triton else "reference")
        asked = {"request": request, "head": head, "num_splits": num_splits, "tile": tile}
        self._record({**asked, "scale_by": scale_by, "order": order, "kernel": kernel})

    @property
    def recorded(self) -> OnlineSoftmaxRun:
        """What is shown, as tensors."""
        return self._recorded

    @command
    def run_again(self) -> str:
        """Records again what is shown, on what the batch holds now."""
        self._record(self.question)
        return ""

    @command
    def edit(self, **changes: Any) -> int:
        """Record again with other values of the constructor's keywords; returns the revision that shows them.

        A refused change leaves everything as it was.
        """
        unknown = set(changes) - set(self.question)
        if unknown:
            raise TypeError(f"edit takes {', '.join(self.question)}; got {', '.join(sorted(unknown))}")
        asked = {**self.question, **changes}
        if "tile" not in changes and self.question["tile"] == _own_tile(self.batch, self.question):
            asked["tile"] = None  # another kernel's own, or that of other splits
        self._record(asked)
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
            question["order"],
            question["kernel"],
            progress=lambda share: self.set_trait("progress", share),
        )
        self._recorded = recorded
        self._versions, self.outdated = Versions(_read(self.batch)), ""
        self.publish(_tensors(recorded), question=question, run=_run(self.batch, recorded), header=self._header())

    def _header(self) -> dict[str, Any]:
        run, batch = self._recorded, self.batch
        subject = (
            f"request {batch.reqs[run.request].rid}, head {run.head} of {batch.num_heads}, "
            f"{plural(len(run.scores), 'key')}, {plural(run.splits, 'split')}, tiles of {run.tile}"
        )
        return {"title": "Online softmax", "subject": subject, "badge": _badge(run)}


def _checked(batch: Batch, question: dict[str, Any]) -> dict[str, Any]:
    request = _integer("request", question["request"], 0, batch.batch_size - 1, "Requests are numbered in batch order.")
    head = _integer("head", question["head"], 0, batch.num_heads - 1, "Heads of this rank are numbered from 0.")
    splits = _integer("num_splits", question["num_splits"], 1, MAX_SPLITS, "More could not be distinguished.")
    tokens, tile = len(batch.slots(request)), question["tile"]
    _check_sees_all(batch, tokens)
    order = _one_of("order", question["order"], ORDERS, "See the widget's description.")
    unfit = _unfit_for_sm100(batch)
    remedy = f"mla_decode_sm100 {unfit}." if unfit else "Choose one of these."
    kernel = _one_of("kernel", question["kernel"], _kernels(batch), remedy)
    if order == "masked" and kernel == "mla_decode_sm100":
        raise BadArgumentError("order", "not masked with mla_decode_sm100", order, "Its keys are its values, too.")
    if tile is None:
        tile = _own_tile(batch, {"request": request, "num_splits": splits, "kernel": kernel})
    least = -(-tokens // MAX_STEPS)
    tile = _integer("tile", tile, least, 1 << 20, f"{tokens} keys are shown in at most {MAX_STEPS} steps.")
    scale = question["scale_by"]
    if not isinstance(scale, Real) or not 0 < float(scale) <= 1024:
        raise BadArgumentError("scale_by", "a factor above 0, at most 1024", repr(scale), "1 is the batch's own scale.")
    found = {"request": request, "head": head, "num_splits": splits, "tile": tile, "scale_by": float(scale)}
    return {**found, "order": order, "kernel": kernel}


def _check_sees_all(batch: Batch, tokens: int) -> None:
    """Neither kernel's call has a window or sinks: what would be drawn is not what the layer computes."""
    layer, chunk = batch.layer, batch.runner.model_config.attention_chunk_size
    parts = {
        "sinks": batch.sinks is not None,
        f"a window of {layer.sliding_window_size + 1} keys": 0 <= layer.sliding_window_size < tokens - 1,
        f"chunks of {chunk} keys": layer.use_irope and 0 < chunk < tokens,
        "a temperature by position": 0 < layer.xai_temperature_len < tokens - 1,
    }
    found = " and ".join(name for name, is_so in parts.items() if is_so)
    if found:
        expected = "a layer whose query sees all keys of its request, without sinks"
        got = f"layer {layer.layer_id} with {found}"
        raise BadArgumentError("batch", expected, got, "Choose another layer, or step its kernel in KernelDebugger.")


def _own_tile(batch: Batch, question: dict[str, Any]) -> int:
    """The kernel's keys per step, doubled until few enough steps are left."""
    tile, splits = KERNEL_TILE[question["kernel"]], question["num_splits"]
    per_split = -(-len(batch.slots(question["request"])) // splits)
    while splits * (-(-per_split // tile) + 1) > MAX_STEPS:
        tile *= 2
    return tile


def _read(batch: Batch) -> list[tuple[str, Any]]:
    """What a run reads of the batch."""
    keys, values = batch.runner.token_to_kv_pool.get_kv_buffer(batch.layer.layer_id)
    return [("the queries", batch.q), ("the keys", keys), ("the values", values)]


def _kernels(batch: Batch) -> tuple[str, ...]:
    """Those that can run on the batch."""
    return KERNELS[:1] if _unfit_for_sm100(batch) else KERNELS


def _unfit_for_sm100(batch: Batch) -> str:
    """Why mla_decode_sm100 cannot run on the batch, to be read after its name; empty where it can."""
    keys, values = batch.runner.token_to_kv_pool.get_kv_buffer(batch.layer.layer_id)
    latent, columns = values.shape[-1], keys.shape[-1]
    if batch.num_kv_heads != 1 or (latent, columns) != (LATENT_DIM, HEAD_DIM):
        return f"needs MLA with rows of {LATENT_DIM} + {HEAD_DIM - LATENT_DIM} columns"
    if batch.num_heads > NUM_HEADS:
        return f"takes at most {NUM_HEADS} heads"
    if keys.dtype not in (torch.float16, torch.bfloat16):
        return "takes 16-bit values only"
    return "has no logit cap" if batch.layer.logit_cap > 0 else ""


def _one_of(name: str, value: Any, options: tuple[str, ...], remedy: str) -> str:
    if value not in options:
        raise BadArgumentError(name, f"one of {', '.join(options)}", value, remedy)
    return str(value)


def _integer(name: str, value: Any, least: int, most: int, remedy: str) -> int:
    try:
        found = None if isinstance(value, bool) else operator.index(value)  # NumPy's and torch's are integers, too
    except TypeError:
        found = None
    if found is None or not least <= found <= most:
        raise BadArgumentError(name, f"an integer from {least} to {most}", repr(value), remedy)
    return found


def _badge(run: OnlineSoftmaxRun) -> dict[str, str]:
    first = {
        "decode_attention_fwd": "Stage 1 and 2 of decode_attention_fwd ran for this request and the heads of its CTA. ",
        "mla_decode_sm100": "The SM100 MLA decode and its combine ran for all heads of this request. ",
    }[run.kernel]
    return {
        "text": f"{run.kernel}: {run.machine} · tiles: torch",
        "title": (
            f"{first}Partials and output are theirs ({run.implementation}, {run.machine}). What a kernel keeps in "
            "registers after each tile was recorded by running its recurrence again in torch, float32, with the "
            f"kernel's rounding; both end within {run.agreement:.0e} of each other. Merges and their errors are "
            "computed on this page, in float32, against attention in float64."
        ),
    }


def _run(batch: Batch, run: OnlineSoftmaxRun) -> dict[str, Any]:
    return {
        "batchSize": batch.batch_size,
        "names": [req.rid for req in batch.reqs],
        "numHeads": batch.num_heads,
        "dtype": str(batch.dtype).removeprefix("torch."),
        "kernels": list(_kernels(batch)),
        "refused": {KERNELS[1]: unfit} if (unfit := _unfit_for_sm100(batch)) else {},
        "logitCap": max(batch.layer.logit_cap, 0.0),
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
        "so_far_o": run.truth.o,
    }
    for name, states in run.states.items():
        tensors[f"{name}.state"], tensors[f"{name}.o"] = states.columns(), states.o
    return tensors
