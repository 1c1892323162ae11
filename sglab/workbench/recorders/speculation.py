"""What speculation does, verification by verification: trees, masks, what the target says, what is kept and moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from sglab.engine.batch import Req
from sglab.engine.errors import BadArgumentError
from sglab.engine.speculation import Tree
from sglab.serving.drafters import Candidates
from sglab.serving.speculative_worker import SpeculativeWorker, Verification
from sglab.words import plural
from sglab.workbench.recorders.verify_pages import PoolState, pool_state

if TYPE_CHECKING:
    from sglab.serving import Engine

LIKELIEST = 8
"""Tokens that are kept of the target's distribution after each node."""


@dataclass(frozen=True, eq=False)
class VerifiedTree:
    """One request's tree in one pass; D nodes, the root first, parents before children.

    Attributes:
        rid: its request.
        prefix: tokens whose KV was in the pool before; the root is the token at this position.
        tokens: [D], the root's and the drafts'.
        tree: parents, depths, next_token, next_sibling.
        scores: float64 [D], how likely the draft model holds each node's path; None: no model drafted.
        offered: candidates that the draft model made, of which D - 1 were chosen; 0: no model drafted.
        slots: [slots], those given to the drafts; node n has slots[n].
        chosen: [D], the token that the target says after each node.
        likely: int64 [D, n], its likeliest tokens after each node; likely_probs: float64, their probabilities, before
            temperature, penalties and what else sampling does to them.
        draft_probs: float64 [D], the target's probability of each node's token after its parent; NaN for the root.
        kept: the accepted nodes, the root first; said: their tokens and the bonus token last, of which those after the
            request's end are dropped (`SpeculationRun.gained`).
        moves: slots whose KV rows were copied: (node, from, to), all read before any was written.
        plain: no draft could be accepted: penalties, a bias or min_new_tokens.
    """

    rid: str
    prefix: int
    tokens: list[int]
    tree: Tree
    scores: np.ndarray | None
    offered: int
    slots: list[int]
    chosen: list[int]
    likely: np.ndarray
    likely_probs: np.ndarray
    draft_probs: np.ndarray
    kept: list[int]
    said: list[int]
    moves: list[tuple[int, int, int]]
    plain: bool

    @property
    def mask(self) -> np.ndarray:
        """bool [D, D]: node by node itself and its ancestors; each also sees the whole prefix."""
        return np.array(self.tree.mask, dtype=bool)


@dataclass(frozen=True)
class VerifiedPass:
    """One pass of the target over all requests' trees; `pool` is who owned which page then."""

    number: int
    trees: list[VerifiedTree]
    pool: PoolState


@dataclass
class SpeculationRun:
    """What `record_speculation` saw.

    Attributes:
        algorithm: "NGRAM", "STANDALONE" or "EAGLE"; model: its name.
        passes: in their order.
        texts: of every token that occurs, as the tokenizer writes it; empty without one.
        ends: of every request that has ended, how many tokens it has, its prompt's among them.
    """

    algorithm: str
    model: str
    passes: list[VerifiedPass] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)

    @property
    def rids(self) -> list[str]:
        """The requests, in the order in which they were first verified."""
        return list(dict.fromkeys(tree.rid for one in self.passes for tree in one.trees))

    def of(self, rid: str) -> list[tuple[VerifiedPass, VerifiedTree]]:
        """A request's trees with their passes.

        Raises:
            BadArgumentError: it was not verified.
        """
        found = [(one, tree) for one in self.passes for tree in one.trees if tree.rid == rid]
        if not found:
            remedy = "Record while it generates more than one token."
            raise BadArgumentError("rid", f"one of {', '.join(self.rids) or 'none'}", repr(rid), remedy)
        return found

    def gained(self, rid: str) -> list[int]:
        """Tokens that each verification of a request added to it: what is said after its end is dropped.

        Raises:
            BadArgumentError: it was not verified.
        """
        trees = [tree for _, tree in self.of(rid)]
        before = [tree.prefix + 1 for tree in trees]
        last = self.ends.get(rid, before[-1] + len(trees[-1].said))
        added = zip(trees, before, [*before[1:], last], strict=True)
        return [min(len(tree.said), after - had) for tree, had, after in added]  # a retracted one is prefilled between

    def described(self) -> tuple[str, str]:
        """A title and its sizes, for lists."""
        kept = f"{self.accepted} of {plural(self.drafted, 'draft')} kept"
        return f"{self.algorithm} speculation", f"{self.model}, {plural(len(self.passes), 'pass', 'passes')}, {kept}"

    @property
    def drafted(self) -> int:
        """Drafts that were verified."""
        return sum(len(tree.tokens) - 1 for one in self.passes for tree in one.trees)

    @property
    def accepted(self) -> int:
        """Drafts that were kept."""
        return sum(len(tree.kept) - 1 for one in self.passes for tree in one.trees)


@contextmanager
def record_speculation(engine: Engine) -> Iterator[SpeculationRun]:
    """Keep every verification that `engine` runs inside the block; outside it nothing is kept or computed.

    Raises:
        BadArgumentError: the engine does not speculate, or is recorded already.
    """
    worker = engine.runs
    if not isinstance(worker, SpeculativeWorker):
        remedy = 'Make it with Engine(…, speculative_algorithm="NGRAM").'
        raise BadArgumentError("engine", "an engine that speculates", "one that does not", remedy)
    if worker.observer is not None:
        raise BadArgumentError("engine", "one that is not being recorded", "one that is", "End the other block.")
    run = SpeculationRun(str(engine.config.speculative_algorithm), engine.model_name)
    decode = None if engine.tokenizer is None else engine.tokenizer.decode
    reqs: dict[str, Req] = {}

    def observe(seen: Verification) -> None:
        pool = pool_state(engine.runner, engine.tree_cache, seen)
        trees = _trees(seen, worker.drafter.candidates)
        reqs.update({req.rid: req for req in seen.reqs})
        run.passes.append(VerifiedPass(len(run.passes), trees, pool))
        if decode is not None:
            met = {t for tree in trees for t in (*tree.tokens, *tree.chosen, *tree.likely.flatten().tolist())}
            run.texts.update({token: decode([token]) for token in met - run.texts.keys()})

    worker.observer = observe
    try:
        yield run
    finally:
        worker.observer = None
        run.ends = {rid: req.seqlen for rid, req in reqs.items() if req.finished()}


def _trees(seen: Verification, candidates: Candidates | None) -> list[VerifiedTree]:
    count = len(seen.chosen[0])
    probs = seen.logits.double().softmax(-1).unflatten(0, (-1, count)).cpu()
    best = probs.topk(min(LIKELIEST, probs.shape[-1]), -1)
    lengths = seen.batch.seq_lens.tolist()
    scores, offered = _scores(candidates)
    moved = dict(zip(seen.sources.tolist(), seen.targets.tolist(), strict=True))
    found = []
    for i, (req, (tokens, tree), kept) in enumerate(zip(seen.reqs, seen.drafts, seen.accepted, strict=True)):
        slots = seen.slots[i].tolist()
        after_parent = [
            float(probs[i, parent, token]) if parent >= 0 else np.nan
            for parent, token in zip(tree.parents, tokens, strict=True)
        ]
        found.append(
            VerifiedTree(
                rid=req.rid,
                prefix=int(lengths[i]),
                tokens=[int(token) for token in tokens],
                tree=tree,
                scores=None if scores is None else np.concatenate(([1.0], scores[i])),
                offered=offered,
                slots=slots,
                chosen=list(seen.chosen[i]),
                likely=best.indices[i].numpy(),
                likely_probs=best.values[i].numpy(),
                draft_probs=np.array(after_parent),
                kept=list(kept.nodes),
                said=list(kept.tokens),
                moves=[(node, slots[node], moved[slots[node]]) for node in kept.nodes if slots[node] in moved],
                plain=seen.plain[i],
            )
        )
    return found


def _scores(candidates: Candidates | None) -> tuple[np.ndarray | None, int]:
    """float64 [B, D - 1] of the chosen candidates, and how many there were."""
    if candidates is None:
        return None, 0
    scores = torch.cat([step.scores.flatten(1) for step in candidates.steps], 1)
    return scores.gather(1, candidates.drafts.selected).double().cpu().numpy(), scores.shape[1]
