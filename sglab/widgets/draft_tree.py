"""DraftTree: speculation step by step: the tree, its mask, what the target says, what is kept, where its KV goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import traitlets

from sglab.engine.errors import BadArgumentError
from sglab.words import plural
from sglab.workbench.recorders.speculation import SpeculationRun, VerifiedPass, VerifiedTree

from .base import asset, command
from .opening import Opener, of_batch
from .page_table import PageTable

NONE = -1
DRAFTERS = {
    "NGRAM": "n-gram drafts",
    "STANDALONE": "a draft model's tree",
    "EAGLE": "drafts from hidden states (EAGLE, MTP)",
}


class DraftTree(Opener):
    """Speculation, verification by verification: draft tree, mask, the target's choices, what is kept and moved.

    Args:
        run: what `sglab.workbench.record_speculation` kept of an engine.
        request: its name, or its number among those verified.
        step: which of the request's verifications to show first.
    """

    bundle = "draft_tree"
    format = 1
    _module = asset("draft_tree.js")
    _css = asset("draft_tree.css")

    requests = traitlets.List(traitlets.Dict(), help="name, passes, drafted and accepted of each").tag(sync=True)
    request = traitlets.Int(0, help="the one whose trees are the tensors").tag(sync=True)
    step = traitlets.Int(0, help="where to begin: one of the request's verifications").tag(sync=True)
    run = traitlets.Dict(help="algorithm, drafted, accepted, passes").tag(sync=True)
    texts = traitlets.Dict(help="token -> how the tokenizer writes it").tag(sync=True)

    def __init__(self, run: SpeculationRun, request: int | str = 0, step: int = 0) -> None:
        if not isinstance(run, SpeculationRun):
            expected = "what sglab.workbench.record_speculation gives"
            raise BadArgumentError("run", expected, type(run).__name__, "Record an engine that speculates.")
        super().__init__()
        self.recorded = run
        self._show(self._number(request), step)

    def page_table(self, step: int | None = None) -> PageTable:
        """The page table of a verification: whose slots, which pages the drafts were given. It can be edited: its pools
        are its own, of the recorded size; queries and KV rows are random.

        Args:
            step: which of the request's verifications; None: the one shown.
        """
        return PageTable(self._pass(self.step if step is None else step).pool.batch(), "flashinfer")

    @command
    def open_widget(self, widget: str, step: int) -> dict[str, Any]:
        """Opens a widget on a verification: its page table, its plan, or its attention kernel on the emulator."""
        one = self._pass(step)
        made = self.page_table(step) if widget == "PageTable" else of_batch(widget, one.pool.batch())
        return self.opened(made, f"pass {one.number}")

    @command
    def show(self, request: int) -> int:
        """Shows another request's trees. Returns how many there are."""
        self._show(self._number(request), 0)
        return len(self.recorded.of(self.recorded.rids[self.request]))

    def _pass(self, step: int) -> VerifiedPass:
        found = self.recorded.of(self.recorded.rids[self.request])
        if not 0 <= step < len(found):
            raise BadArgumentError("step", f"0 to {len(found) - 1}", step, "Choose one of the verifications.")
        return found[step][0]

    def _number(self, request: int | str) -> int:
        rids = self.recorded.rids
        if not rids:
            remedy = "Record while a request generates more than one token."
            raise BadArgumentError("run", "one verification at least", "none", remedy)
        if isinstance(request, str):
            self.recorded.of(request)
            return rids.index(request)
        if isinstance(request, bool) or not isinstance(request, int) or not 0 <= request < len(rids):
            raise BadArgumentError("request", f"0 to {len(rids) - 1}, or a name", request, "Choose one of them.")
        return request

    def _show(self, request: int, step: int) -> None:
        run = self.recorded
        found = run.of(run.rids[request])
        trees = [tree for _, tree in found]
        if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < len(trees):
            raise BadArgumentError("step", f"0 to {len(trees) - 1}", step, "Choose one of the verifications.")
        seen = {tree.rid: self._summary(tree.rid) for one in run.passes for tree in one.trees}
        drafter = DRAFTERS.get(run.algorithm, run.algorithm)
        nodes, passes = plural(len(trees[0].tokens), "node"), plural(len(trees), "pass", "passes")
        subject = f"{run.rids[request]}: {drafter}, {nodes} a pass, {passes}"
        badge = {"text": "recorded run", "title": f"A real run of the engine with {run.model}, {run.algorithm}"}
        self.publish(
            tree_tensors(found),
            requests=list(seen.values()),
            request=request,
            step=step,
            run={
                "algorithm": run.algorithm,
                "drafted": run.drafted,
                "accepted": run.accepted,
                "numbers": [one.number for one, _ in found],
                "gained": run.gained(run.rids[request]),
                "pageSize": found[0][0].pool.runner.page_size,
            },
            texts={str(token): text for token, text in run.texts.items()},
            header={"title": "Draft tree", "subject": subject, "badge": badge},
        )

    def _summary(self, rid: str) -> dict[str, Any]:
        trees = [tree for _, tree in self.recorded.of(rid)]
        return {
            "name": rid,
            "passes": len(trees),
            "drafted": sum(len(tree.tokens) - 1 for tree in trees),
            "accepted": sum(len(tree.kept) - 1 for tree in trees),
        }


def tree_tensors(found: list[tuple[VerifiedPass, VerifiedTree]]) -> dict[str, np.ndarray]:
    """A request's verifications as columns; D nodes each.

    Returns:
        nodes int32 [passes, D, 10]: token, parent, depth, next_token, next_sibling, slot, chosen token, place among the
        accepted (−1: none), slot its KV was moved to (−1: not moved), position. scores float64 [passes, D, 2]: of the
        path by the draft model, and of the token by the target after its parent (NaN: not known). likely int32 and
        likely_probs float32 [passes, D, n]. passes int32 [passes, 6]: prefix, accepted drafts, candidates offered,
        bonus token, whether no draft could be accepted, row of the batch.
    """
    nodes, scores, passes = [], [], []
    trees = [one for _, one in found]
    for seen, one in found:
        count, moved = len(one.tokens), {node: to for node, _, to in one.moves}
        place = {node: at for at, node in enumerate(one.kept)}
        tree = one.tree
        columns = (
            one.tokens,
            tree.parents,
            tree.depths,
            tree.next_token,
            tree.next_sibling,
            one.slots[:count],
            one.chosen,
            [place.get(node, NONE) for node in range(count)],
            [moved.get(node, NONE) for node in range(count)],
            [one.prefix + depth for depth in tree.depths],
        )
        nodes.append(np.array(columns, dtype=np.int32).T)
        paths = np.full(count, np.nan) if one.scores is None else one.scores
        scores.append(np.stack((paths, one.draft_probs), -1))
        passes.append((one.prefix, len(one.kept) - 1, one.offered, one.said[-1], int(one.plain), seen.trees.index(one)))
    return {
        "nodes": np.stack(nodes),
        "scores": np.stack(scores),
        "likely": np.stack([one.likely for one in trees]).astype(np.int32),
        "likely_probs": np.stack([one.likely_probs for one in trees]).astype(np.float32),
        "passes": np.array(passes, dtype=np.int32),
    }
