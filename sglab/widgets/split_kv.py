"""SplitKV: how planners divide a batch's KV among CTAs, and where those run, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import traitlets
from numpy.typing import ArrayLike, NDArray

from sglab.gpu.architecture import B200_SMS, H100_SMS
from sglab.planning import PLANNERS, Plan, check
from sglab.planning.num_kv_splits import check_heads
from sglab.words import plural

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
        seq_lens: KV tokens per request, or a batch (its lengths, requests, heads, head dims and page size are read
            once). Planners plan decode steps: a batch that extends is planned as a decode of as much KV.
        num_heads, num_kv_heads: of one rank.
        head_dim: of keys and values, where only lengths are given; None: one KV head is assumed to be MLA's latent (576
            and 512 dims), several have 128.
        sm_count: a number, or "H100", "H200", "B200".
        page_size: in tokens; None takes the batch's, and without a batch lets every planner use its own.
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
    place = traitlets.Dict(help="where the reader is: a saved page opens there").tag(sync=True)
    names = traitlets.List(traitlets.Unicode(), help="of the batch's requests; empty: they have none").tag(sync=True)

    def __init__(
        self,
        seq_lens: Any,
        planners: Sequence[str] | None = None,
        *,
        num_heads: int | None = None,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        sm_count: int | str = "H100",
        page_size: int | None = None,
        enable_cuda_graph: bool = False,
    ) -> None:
        batch = seq_lens if hasattr(seq_lens, "seq_lens") else None
        if batch is not None:
            seq_lens = batch.seq_lens.tolist()
            num_heads = batch.num_heads if num_heads is None else num_heads
            num_kv_heads = batch.num_kv_heads if num_kv_heads is None else num_kv_heads
            page_size = batch.page_size if page_size is None else page_size
        question = _checked(
            {
                "num_heads": 128 if num_heads is None else num_heads,
                "num_kv_heads": 1 if num_kv_heads is None else num_kv_heads,
                "sm_count": sm_count,
                "page_size": page_size,
                "enable_cuda_graph": enable_cuda_graph,
            }
        )
        head_dims = _head_dims(batch, head_dim)
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
        self._taken = _requests(batch)
        self._lens: NDArray[np.int64] = np.zeros(0, np.int64)
        self._answers: dict[str, Plan | str] = {}
        self._ask(check.lengths("seq_lens", seq_lens, minimum=1), question, _known(planners))

    def after_cell(self) -> None:
        now, then = _requests(self._batch), self._taken
        changed = "lengths" if now.lens != then.lens else "requests"
        stale = now != then and now.lens
        self.outdated = f"The batch has other {changed} than those that were planned." if stale else ""

    @command
    def run_again(self) -> str:
        """Plans the lengths that the batch has now."""
        if self._batch is None:
            return super().run_again()
        self._taken, self.outdated = _requests(self._batch), ""
        self.replan(self._taken.lens)
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
        asked, taken = dict(question), self._taken
        names = list(taken.names) if len(taken.names) == lens.size else []
        header = self._header(lens, asked, _what(self._batch) if taken.lens == tuple(lens.tolist()) else "")
        self.publish(tensors, question=asked, panes=panes, names=names, header=header)

    def _header(self, lens: NDArray[np.int64], question: Mapping[str, Any], what: str) -> dict[str, Any]:
        """what: the batch is, where it is no decode."""
        heads, kv_heads, tokens = question["num_heads"], question["num_kv_heads"], int(lens.sum())
        assumed = ", assumed to be MLA's" if kv_heads == 1 and self._batch is None and not self._head_dims else ""
        what = what or f"decode of {plural(lens.size, 'request')}"
        subject = (
            f"{what}, {plural(tokens, 'KV token')}, "
            f"{plural(heads, 'head')} on {plural(kv_heads, 'KV head')}{assumed}, {question['sm_count']} SMs"
        )
        if self._batch is not None and 0 <= self._batch.layer.sliding_window_size < int(lens.max()) - 1:
            subject += f", without the layer's window of {plural(self._batch.layer.sliding_window_size + 1, 'key')}"
        return {"title": "Split KV", "subject": subject, "badge": {"text": "planner · modelled time", "title": MODEL}}


class _Requests(NamedTuple):
    """Of a batch: its requests' names and lengths; empty without a batch."""

    names: tuple[str, ...]
    lens: tuple[int, ...]


def _requests(batch: Any) -> _Requests:
    if batch is None:
        return _Requests((), ())
    return _Requests(tuple(req.rid for req in batch.reqs), tuple(batch.seq_lens.tolist()))


def _what(batch: Any) -> str:
    """What a batch is that does not decode; empty for others."""
    if batch is None or batch.forward_mode.is_decode():
        return ""
    mode, new = batch.forward_mode.name.lower().replace("_", " "), sum(batch.new_tokens)
    requests = plural(batch.batch_size, "request")
    return f"{mode} of {requests}, {plural(new, 'new token')}, planned as a decode"


def _head_dims(batch: Any, head_dim: int | None) -> dict[str, Any]:
    """Of keys and values; empty for MLA, and where nothing is known."""
    if head_dim is not None:
        dim = check.integer("head_dim", head_dim, minimum=1)
        return {"head_dim_qk": dim, "head_dim_vo": dim}
    if batch is None or batch.kind == "mla":
        return {}
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
