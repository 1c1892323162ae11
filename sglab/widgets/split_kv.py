"""SplitKV: how planners divide a batch's KV among CTAs, and where those run, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import traitlets
from numpy.typing import ArrayLike, NDArray

from sglab.gpu.architecture import B200_SMS, H100_SMS
from sglab.planning import PLANNERS, Plan, check
from sglab.planning.num_kv_splits import check_heads

from .base import Widget, asset, command

SM_COUNTS = {"H100": H100_SMS, "H200": H100_SMS, "B200": B200_SMS}
WORK_COLUMNS = (
    "request",
    "head_block",
    "split",
    "token_start",
    "token_end",
    "cta",
    "cluster",
    "sm",
    "slot",
    "wave",
    "start",
    "end",
)
DRAWN = 65_536
"""Work units that a pane draws at most; plans with more show their arrays and totals."""
MODEL = (
    "Arrays and totals are what the planner computes. Where and when CTAs run is modelled: in launch order, each on "
    "the slot that is free first, for as long as it has KV tokens. Nothing here was measured."
)


class SplitKV(Widget):
    """Split-KV planners on one batch: which CTA on which SM does which part of which request.

    Attributes:
        planners: names from `sglab.planning.PLANNERS`, shown side by side; by default two that fit the heads.

    Args:
        seq_lens: KV tokens per request, or a decode batch (its lengths, heads and head dims are read once).
        num_heads, num_kv_heads: of one rank; one KV head with 128 heads is absorbed MLA (576 and 512 dims).
        sm_count: a number, or "H100", "H200", "B200".
        page_size: in tokens; None lets every planner use its own.
        enable_cuda_graph: plan as for a captured graph, where the planner makes a difference.

    Raises:
        ValueError or TypeError, naming the argument, for lengths, heads or planners that cannot be.
    """

    bundle = "split_kv"
    format = 2
    _module = asset("split_kv.js")
    _css = asset("split_kv.css")

    question = traitlets.Dict(help="heads, SMs, page size, graph").tag(sync=True)
    planners: traitlets.List[Any] = traitlets.List(help="every planner: name, title, attention").tag(sync=True)
    panes: traitlets.List[Any] = traitlets.List(help="the shown planners' answers, see `_pane`").tag(sync=True)

    def __init__(
        self,
        seq_lens: Any,
        planners: Sequence[str] | None = None,
        *,
        num_heads: int | None = None,
        num_kv_heads: int | None = None,
        sm_count: int | str = "H100",
        page_size: int | None = None,
        enable_cuda_graph: bool = False,
    ) -> None:
        batch = seq_lens if hasattr(seq_lens, "seq_lens") else None
        if batch is not None:
            seq_lens = batch.seq_lens.tolist()
            num_heads = batch.num_heads if num_heads is None else num_heads
            num_kv_heads = batch.num_kv_heads if num_kv_heads is None else num_kv_heads
        question = _checked(
            {
                "num_heads": 128 if num_heads is None else num_heads,
                "num_kv_heads": 1 if num_kv_heads is None else num_kv_heads,
                "sm_count": sm_count,
                "page_size": page_size,
                "enable_cuda_graph": enable_cuda_graph,
            }
        )
        head_dims: dict[str, Any] = {} if batch is None or batch.kind == "mla" else _head_dims(batch)
        if planners is None:
            latent = question["num_kv_heads"] == 1 and not head_dims
            planners = (
                ("cutlass_mla_individual", "flashinfer_mla") if latent else ("flashinfer_decode", "sglang_triton")
            )
        super().__init__(
            planners=[
                {"name": each.name, "title": each.title, "attention": each.attention} for each in PLANNERS.values()
            ]
        )
        self._batch = batch
        self._head_dims = head_dims
        self._taken = None if batch is None else tuple(batch.seq_lens.tolist())
        self._lens: NDArray[np.int64] = np.zeros(0, np.int64)
        self._answers: dict[str, Plan | str] = {}
        self._ask(check.lengths("seq_lens", seq_lens, minimum=1), question, _known(planners))

    def after_cell(self) -> None:
        now = self._taken if self._batch is None else tuple(self._batch.seq_lens.tolist())
        changed = now != self._taken
        self.outdated = "The batch has other lengths than those that were planned." if changed and now else ""

    @command
    def run_again(self) -> str:
        """Plans the lengths that the batch has now."""
        if self._batch is None:
            return super().run_again()
        self._taken, self.outdated = tuple(self._batch.seq_lens.tolist()), ""
        self.replan(self._taken)
        return ""

    @property
    def seq_lens(self) -> NDArray[np.int64]:
        """The lengths as they are now, after dragging."""
        return self._lens.copy()

    @property
    def plans(self) -> dict[str, Plan]:
        """The shown planners' plans; those that refuse this batch are missing."""
        return {name: answer for name, answer in self._answers.items() if isinstance(answer, Plan)}

    def replan(self, seq_lens: ArrayLike | None = None, planners: Sequence[str] | None = None, **question: Any) -> None:
        """Plan again with other lengths, planners or constructor's keywords. A refused call changes nothing."""
        unknown = set(question) - set(self.question)
        if unknown:
            raise TypeError(f"replan takes {', '.join(self.question)}; got {', '.join(sorted(unknown))}")
        lens = self._lens if seq_lens is None else check.lengths("seq_lens", seq_lens, minimum=1)
        names = tuple(self._answers) if planners is None else _known(planners)
        self._ask(lens, _checked({**self.question, **question}), names)

    @command
    def edit(
        self,
        seq_lens: list[int] | None = None,
        planners: list[str] | None = None,
        question: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """What the page requests while a length is dragged or a control changes; answers with everything it draws."""
        self.replan(seq_lens, planners, **(question or {}))
        return {
            "revision": self.revision,
            "question": self.question,
            "panes": self.panes,
            "tensors": {
                name: self._tensors[name] for name in self._tensors if name == "seq_lens" or name.endswith(".work")
            },
        }

    def _ask(self, lens: NDArray[np.int64], question: Mapping[str, Any], names: Sequence[str]) -> None:
        answers: dict[str, Plan | str] = {}
        tensors: dict[str, Any] = {"seq_lens": lens.astype(np.int32)}
        panes = []
        for name in names:
            try:
                if self._head_dims and PLANNERS[name].attention == "mla":
                    raise check.fail("batch", "the latent KV of MLA", _dims(self._head_dims), "choose another planner")
                answers[name] = PLANNERS[name](lens, **question, **self._head_dims)
            except ValueError as error:  # this planner refuses: its pane says why, the others continue
                answers[name] = str(error)
            panes.append(_pane(name, answers[name]))
            tensors |= _tensors(name, answers[name])
        if answers and all(isinstance(answer, str) for answer in answers.values()) and not self._answers:
            raise ValueError(f"no planner takes this batch; {names[0]} says: {answers[names[0]]}")
        self._lens, self._answers = lens.copy(), answers
        self.publish(tensors, question=dict(question), panes=panes, header=_header(lens, question))


def _head_dims(batch: Any) -> dict[str, Any]:
    return {"head_dim_qk": batch.layer.qk_head_dim, "head_dim_vo": batch.layer.v_head_dim}


def _dims(head_dims: Mapping[str, int]) -> str:
    return "keys of {head_dim_qk} and values of {head_dim_vo} dims".format(**head_dims)


def _known(planners: Sequence[str]) -> tuple[str, ...]:
    names = (planners,) if isinstance(planners, str) else tuple(dict.fromkeys(planners))
    for name in names:
        if name not in PLANNERS:
            raise ValueError(f"planners: expected names among {', '.join(PLANNERS)}, got {name!r}; choose one of these")
    if not names:
        raise ValueError("planners: expected at least one name, got none; name one of sglab.planning.PLANNERS")
    return names


def _checked(question: dict[str, Any]) -> dict[str, Any]:
    """What no planner could answer is refused here; what only some refuse is theirs to say."""
    sm_count, page_size = question["sm_count"], question["page_size"]
    if isinstance(sm_count, str):
        if sm_count not in SM_COUNTS:
            known = ", ".join(SM_COUNTS)
            raise ValueError(f"sm_count: expected a number or one of {known}, got {sm_count!r}; pass the number of SMs")
        sm_count = SM_COUNTS[sm_count]
    heads, kv_heads = check_heads(question["num_heads"], question["num_kv_heads"])
    return {
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "sm_count": check.integer(
            "sm_count", sm_count, minimum=2, maximum=2048, remedy=f"an H100 has {H100_SMS}, a B200 {B200_SMS}"
        ),
        "page_size": None if page_size is None else check.integer("page_size", page_size, minimum=1),
        "enable_cuda_graph": bool(question["enable_cuda_graph"]),
    }


def _header(lens: NDArray[np.int64], question: Mapping[str, Any]) -> dict[str, Any]:
    heads, kv_heads = question["num_heads"], question["num_kv_heads"]
    tokens = int(lens.sum())
    subject = (
        f"decode of {lens.size:,} request{'s' * (lens.size > 1)}, {tokens:,} KV token{'s' * (tokens > 1)}, "
        f"{heads} heads on {kv_heads} KV head{'s' * (kv_heads > 1)}, {question['sm_count']} SMs"
    )
    return {"title": "Split KV", "subject": subject, "badge": {"text": "planner · modelled time", "title": MODEL}}


def _pane(name: str, answer: Plan | str) -> dict[str, Any]:
    """What the page knows of one planner's answer besides its tensors."""
    pane: dict[str, Any] = {"name": name, "title": PLANNERS[name].title}
    if isinstance(answer, str):
        return {**pane, "error": answer}
    launch, merge = answer.launch, answer.merge
    return {
        **pane,
        "source": answer.source,
        "why": answer.why(),
        "units": len(answer.work),
        "drawn": len(answer.work) <= DRAWN,
        "grid": list(launch.grid),
        "ctas": launch.num_ctas,
        "clusterSize": launch.cluster_size,
        "ctasPerSm": launch.ctas_per_sm,
        "smCount": launch.sm_count,
        "waves": answer.waves,
        "occupancy": answer.occupancy,
        "idleShare": answer.idle_share,
        "makespan": answer.makespan,
        "workspaceBytes": answer.workspace_bytes,
        "partials": merge.partials,
        "outputs": merge.outputs,
        "mergeBytes": merge.bytes_read + merge.bytes_written,
        "headBlockIs": answer.head_block_is,
        "scalars": {key: _plain(value) for key, value in answer.scalars.items()},
        "arrays": [
            {"name": key, "dtype": array.dtype.name, "shape": list(array.shape)} for key, array in answer.arrays.items()
        ],
    }


def _tensors(name: str, answer: Plan | str) -> dict[str, Any]:
    if isinstance(answer, str):
        return {}
    # a page knows no uint32, the type of FlashInfer's total_num_rows under a CUDA graph
    crossing = {key: each.astype(np.int64) if each.dtype == np.uint32 else each for key, each in answer.arrays.items()}
    tensors: dict[str, Any] = {f"{name}.{key}": array for key, array in crossing.items()}
    if len(answer.work) <= DRAWN:
        work = np.stack([getattr(answer.work, column) for column in WORK_COLUMNS])
        tensors[f"{name}.work"] = work.astype(np.int32) if answer.makespan < 2**31 else work
    return tensors


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
