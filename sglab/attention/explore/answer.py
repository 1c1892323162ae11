"""One backend's answer to a pass: it is made and prepared for real, on tensors that only its index kernels read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import torch

from sglab.attention.base import AttentionBackend
from sglab.attention.capabilities import Demand
from sglab.attention.create import create_attention_backend
from sglab.attention.explore.built import Built, built_by
from sglab.attention.explore.costs import Cost, Seen, cost_of, seen
from sglab.attention.explore.machines import why_not_on
from sglab.attention.explore.plans import PlanFacts, plan_of
from sglab.attention.explore.ranks import own_part
from sglab.attention.info import recording
from sglab.attention.registry import backend_factory
from sglab.attention.selection import BackendSelection, Hardware
from sglab.attention.torch_backend import PerRequestBackend
from sglab.attention.upstream import SGLANG_BACKENDS
from sglab.attention.workspace import a_process_of_its_own
from sglab.engine import BadArgumentError, ForwardBatch, GraphBatch, ModelRunner, RadixAttention

FLAG = "double_sparsity"
"""Until 0.5.9 switched on by a flag, not by name."""

By = Literal["backend", "machine", "SGLang"]


@dataclass(frozen=True)
class Pass:
    """What is asked: one layer of one pass over the runner's pools.

    `graph`: under a CUDA graph of this size. `sparse`: the model has an indexer (DeepSeek-V3.2).
    """

    runner: ModelRunner
    batch: ForwardBatch
    layer: RadixAttention
    sinks: torch.Tensor | None = None
    graph: bool = False
    sparse: bool = False

    @cached_property
    def seen(self) -> Seen:
        """What its queries see: the same for every backend."""
        return seen(self.batch, self.layer.sliding_window_size)


@dataclass(frozen=True)
class Refusal:
    """Why not: `by` whom, about which argument ("" if about none), in which words."""

    by: By
    text: str
    argument: str = ""


@dataclass(frozen=True)
class Answer:
    """What one backend does with a pass.

    Attributes:
        page_size: of the pages that it was asked with.
        served_by: the backend whose kernels run, its own name or its fallback's; "" where the call is refused.
        refusals: by SGLang (the name, the machine, the page size), by the machine, by the backend itself.
        selection: what SGLang does when this backend is named; None where it refuses.
        built, plan, cost: None where the backend refuses. `plan` may be a sentence saying why there is none. Where
            ranks share the pass they are the first one's; a `cost` that is not counted is None, as `notes` then say.
        notes: of the backend, while it prepared.
    """

    name: str
    page_size: int
    served_by: str
    refusals: tuple[Refusal, ...]
    selection: BackendSelection | None = None
    built: Built | None = None
    plan: PlanFacts | str | None = None
    cost: Cost | None = None
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """SGLang starts with it on this machine, and it serves the pass."""
        return not self.refusals


def answer(
    name: str, asked: Pass, hardware: Hardware, version: str, named: BackendSelection | str | None = None
) -> Answer:
    """Make a backend, prepare it, and read off what it built.

    Args:
        asked: a pass whose metadata agree with its pools; that is not checked again for each backend.
        name: a registered backend.
        named: what SGLang's selection says when this backend is asked for by name, or its refusal.
    """
    refusals: list[Refusal] = []
    if name not in SGLANG_BACKENDS[version] and (name != FLAG or version == "0.5.23"):
        refusals.append(Refusal("SGLang", f"SGLang {version} has no backend of this name."))
    elif isinstance(named, str):
        refusals.append(Refusal("SGLang", named))
    elif named is not None and name not in (named.prefill, named.decode):
        refusals.append(Refusal("SGLang", f"It runs {named.decode} instead: {'; '.join(named.notes) or named.reason}."))
    elsewhere = why_not_on(name, hardware, version)
    if elsewhere:
        refusals.append(Refusal("machine", elsewhere))
    base = Answer(name, asked.runner.page_size, "", (), None if isinstance(named, str) else named)
    try:
        with recording(asked.runner.device) as log, a_process_of_its_own():
            backend = _prepared(name, asked)
    except BadArgumentError as refused:
        said = Refusal("backend", str(refused), refused.argument)
        return replace(base, refusals=(*refusals, said))
    part = own_part(backend, asked.batch, asked.layer, asked.seen)
    built = built_by(part.backend, part.gathered)
    plan = plan_of(part.backend, asked.runner, part.batch, part.layer, asked.graph, hardware)
    planned = plan if isinstance(plan, PlanFacts) else None
    cost, notes = None, tuple(log.notes)
    if part.seen is None:
        notes = (*notes, part.note)
    else:
        cost = cost_of(
            part.backend,
            asked.runner,
            part.batch,
            part.layer,
            part.seen,
            index_bytes=built.read_bytes(part.seen.keys, part.seen.read, asked.runner.page_size)
            + (planned.array_bytes if planned else 0),
            partial_bytes=planned.partial_bytes if planned else built.partials,
            sparse=asked.sparse,
        )
        unseen = planned is None and part.batch.forward_mode.is_decode() and not built.partials and built.arrays
        unsaid = ("partial results of splits that the kernel chooses are not counted",) if unseen else ()
        cost = replace(cost, notes=(*cost.notes, *unsaid, *((part.note,) if part.note else ())))
    return replace(
        base,
        served_by=part.backend.serving.name or name,
        refusals=tuple(refusals),
        built=built,
        plan=plan,
        cost=cost,
        notes=notes,
    )


def _prepared(name: str, asked: Pass) -> AttentionBackend:
    """A backend that has prepared the pass, as eager or as the replay of a graph.

    Raises:
        UnsupportedError: it does not serve what is asked, on any point.
    """
    factory = backend_factory(name, asked.runner.model_config.kind if name == "flashinfer" else None)
    in_torch = isinstance(factory, type) and issubclass(factory, PerRequestBackend)
    own = "auto" if in_torch else "reference"
    runner = replace(asked.runner, kernel_implementation=own, check_metadata=False)
    made: AttentionBackend = create_attention_backend(name, runner)
    demand = Demand(
        mode=asked.batch.forward_mode,
        spec_info=asked.batch.spec_info,
        dtype=runner.dtype,
        layer=asked.layer,
        sinks=asked.sinks,
    )
    if asked.graph:
        graph = GraphBatch.of(asked.batch)
        if not made.capabilities.graph_modes:  # init_graph would speak of a decode's graph, and advise for that
            made.refuse_unserved(Demand.of_batch(graph))
        made.init_graph(graph.bs, graph.num_tokens)
        made.prepare_capture(graph)
        made.prepare_replay(graph)
    else:
        made.prepare(asked.batch)
    made.serving.refuse_unserved(demand)
    made.serving.refuse_layer(asked.layer)
    return made
