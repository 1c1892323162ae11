"""SpeculativeWorker: drafts a tree per request, verifies all of them in one pass and keeps the accepted paths.

At every node the target chooses a token as it would without drafts, with the same seed and position; a draft is kept
where it equals that token. So greedy and seeded outputs are those of plain decoding, and all others are distributed so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from sglab.engine import ForwardBatch, Req
from sglab.engine.scheduler import PassResult
from sglab.engine.speculation import Accepted, Tree, accepted_moves, verify_tree_greedy
from sglab.serving.drafters import Drafter, verify_batch
from sglab.serving.sampling_info import SamplingInfo
from sglab.serving.worker import ModelWorker, PassInputs


class Verification(NamedTuple):
    """One verified pass, request by request, when the accepted rows have been moved."""

    reqs: list[Req]
    batch: ForwardBatch
    drafts: list[tuple[list[int], Tree]]
    slots: torch.Tensor
    """int64 [B, slots]: those that each request's drafts were given, one per node first."""
    logits: torch.Tensor
    """[B · nodes, vocab], of the target after every node."""
    chosen: list[list[int]]
    """[B][nodes], what the target says after every node."""
    accepted: list[Accepted]
    plain: list[bool]
    """[B]: no draft could be accepted, whatever the target says (`needs_plain_decode`)."""
    sources: torch.Tensor
    """int64 [moves]: slots whose rows were copied to those of `targets`, all requests'."""
    targets: torch.Tensor


class SpeculativeWorker:
    """Runs a pass: prefills as the target's worker does, decodes with drafts.

    Args:
        target: the worker of the model that is served.
        drafter: where drafts come from.
        topk: 1 if every tree is a chain.

    Attributes:
        observer: is called after every verification; None: no observer.
    """

    def __init__(self, target: ModelWorker, drafter: Drafter, topk: int) -> None:
        self.target, self.drafter, self.topk = target, drafter, topk
        self.observer: Callable[[Verification], None] | None = None

    @torch.inference_mode()
    def forward(self, inputs: PassInputs) -> Callable[[], PassResult]:
        """Run a pass. Returns its tokens: of a verification several per request."""
        if not inputs.batch.forward_mode.is_target_verify():
            return self.target.forward(inputs)
        reqs, runner = inputs.reqs, self.target.runner
        drafts = self.drafter.draft(reqs, inputs.batch)
        tokens = torch.tensor([nodes for nodes, _ in drafts], device=runner.device)
        count = tokens.shape[1]
        trees = [tree for _, tree in drafts]
        slots = inputs.batch.out_cache_loc.to(runner.device).view(len(reqs), -1)
        batch = verify_batch(inputs.batch, runner, tokens, slots[:, :count], trees, self.topk)
        batch.attn_backend = self.target.backend
        logits = self.target.verify(batch)
        chosen, logprobs, top, ids = self._choose(logits, batch.positions, inputs, count)
        accepted, plain = [], [needs_plain_decode(inputs, i) for i in range(len(reqs))]
        for i, (nodes, tree) in enumerate(drafts):
            kept = verify_tree_greedy(tree, nodes, chosen[i])
            accepted.append(Accepted(kept.nodes[:1], kept.tokens[:1]) if plain[i] else kept)
        sources, targets = accepted_moves(slots, [each.nodes for each in accepted])
        if len(sources):
            self.target.move_rows(targets, sources)
        if self.observer is not None:
            seen = (reqs, batch, drafts, slots, logits, chosen, accepted, plain, sources, targets)
            self.observer(Verification(*seen))
        rows = batch.req_pool_indices
        self.target.output_tokens[rows] = torch.tensor([each.tokens[-1] for each in accepted], device=runner.device)
        result = PassResult(
            [each.tokens for each in accepted],
            None if logprobs is None else [[logprobs[i][n] for n in each.nodes] for i, each in enumerate(accepted)],
            None if top is None else [[top[i][n] for n in each.nodes] for i, each in enumerate(accepted)],
            None if ids is None else [[ids[i][n] for n in each.nodes] for i, each in enumerate(accepted)],
            drafted=count - 1,
        )
        self._count(inputs, rows, accepted)
        return lambda: result

    def _choose(
        self, logits: torch.Tensor, positions: torch.Tensor | None, inputs: PassInputs, count: int
    ) -> tuple[list[list[int]], list[list[float]] | None, Any, list[list[list[float]]] | None]:
        """What the target says after every node, [B][nodes], and the log probabilities asked for."""
        assert positions is not None
        target, each = self.target, [req for req in inputs.reqs for _ in range(count)]
        info = target.sampling_info(each)
        roots, whole = logits[::count], logits
        root_info = SamplingInfo.of(inputs.reqs, logits.device)
        rows = inputs.batch.req_pool_indices
        adjusted = target.adjuster.adjust(roots, root_info, rows, inputs.reqs, inputs.generated)
        if adjusted is not roots:
            whole = logits.clone()
            whole[::count] = adjusted
        sampled = target.sampler(logits, whole, positions + 1, info)
        shape = (len(inputs.reqs), count)
        chosen = sampled.tokens.view(shape).tolist()
        logprobs = None if sampled.logprobs is None else sampled.logprobs.view(shape).tolist()
        ids = None if sampled.ids_logprobs is None else sampled.ids_logprobs.view(*shape, -1).tolist()
        if sampled.top_tokens is None or sampled.top_logprobs is None:
            return chosen, logprobs, None, ids
        pairs = zip(sampled.top_tokens.tolist(), sampled.top_logprobs.tolist(), strict=True)
        flat = [list(zip(*pair, strict=True)) for pair in pairs]
        return chosen, logprobs, [flat[i * count : (i + 1) * count] for i in range(len(inputs.reqs))], ids

    def _count(self, inputs: PassInputs, rows: torch.Tensor, accepted: list[Accepted]) -> None:
        """Requests with penalties accept one token a pass: count it."""
        first = torch.tensor([each.tokens[0] for each in accepted], device=rows.device)
        self.target.adjuster.count(SamplingInfo.of(inputs.reqs, rows.device), rows, first)


def needs_plain_decode(inputs: PassInputs, i: int) -> bool:
    """Whether what a request may say next depends on each token before: no draft is accepted then."""
    params = inputs.reqs[i].sampling_params
    return params.has_penalty or bool(params.logit_bias) or inputs.generated[i] < params.min_new_tokens
