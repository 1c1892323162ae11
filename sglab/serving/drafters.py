"""Drafters: where the trees of draft tokens come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch

from sglab.attention import AttentionBackend
from sglab.engine import ForwardBatch, ForwardMode, ModelRunner, Req
from sglab.engine.batch import ModelWorkerBatch
from sglab.engine.speculation import (
    Drafts,
    Frontier,
    Tree,
    TreeStep,
    VerifyInput,
    build_tree,
    full_mask,
    ngram_tree,
    organize_draft_results,
    select_top_k_tokens,
    tree_of,
)
from sglab.layers import LogitsProcessor
from sglab.models import CausalLM


class Candidates(NamedTuple):
    """What a draft model offered for a pass, and which of it is verified."""

    steps: list[TreeStep]
    drafts: Drafts


class Drafter(Protocol):
    """Drafts for a batch that is about to be verified."""

    num_slots: int
    """Slots that a request's drafts need, the root's among them."""
    candidates: Candidates | None
    """Of the last draft, for whoever looks on; None: no model drafted."""

    def draft(self, reqs: Sequence[Req], batch: ModelWorkerBatch) -> list[tuple[list[int], Tree]]:
        """Per request the nodes' tokens (the first is its last token) and their tree."""


class NgramDrafter:
    """Drafts from each request's own tokens; needs no model.

    Args:
        num_draft_tokens: nodes of a tree, the root among them.
    """

    def __init__(self, num_draft_tokens: int) -> None:
        self.num_slots = num_draft_tokens
        self.candidates: Candidates | None = None

    def draft(self, reqs: Sequence[Req], batch: ModelWorkerBatch) -> list[tuple[list[int], Tree]]:
        return [ngram_tree(req.token_ids(), self.num_slots) for req in reqs]


class CatchUp:
    """Which tokens of each request a draft model has not seen at their slots yet.

    Args:
        runner: the draft model's.
    """

    def __init__(self, runner: ModelRunner) -> None:
        self.runner = runner
        self._cached: dict[str, tuple[int, int]] = {}

    def batch(self, reqs: Sequence[Req], batch: ModelWorkerBatch, shift: int = 0) -> ForwardBatch:
        """An extend over these; they count as seen from now on.

        Args:
            batch: planned for TARGET_VERIFY.
            shift: the input at each position is the token so many further on.
        """
        lengths, rows = batch.seq_lens_cpu.tolist(), batch.req_pool_indices.tolist()
        table = self.runner.req_to_token_pool.req_to_token
        starts: list[int] = []
        written = table.new_empty(0)
        for req, row, length in zip(reqs, rows, lengths, strict=True):
            retractions, cached = self._cached.get(req.rid, (req.retraction_count, 0))
            start = min(cached if retractions == req.retraction_count else 0, length - 1)
            slots = table[row, start:length]
            # A prefix that requests share is computed once; the last token's slot is always its request's own.
            shared = int(torch.isin(slots, written).long().cumprod(0).sum()) if start < length - 1 else 0
            starts.append(start + shared)
            written = torch.cat((written, slots[shared:]))
        spans = list(zip(reqs, rows, starts, lengths, strict=True))
        ids = [token for req, _, start, end in spans for token in req.token_ids()[start + shift : end + shift]]
        extend = ModelWorkerBatch(
            forward_mode=ForwardMode.EXTEND,
            input_ids=torch.tensor(ids),
            req_pool_indices=batch.req_pool_indices,
            seq_lens=batch.seq_lens,
            out_cache_loc=torch.cat([table[row, start:end].to(torch.int64) for _, row, start, end in spans]),
            seq_lens_cpu=batch.seq_lens_cpu,
            seq_lens_sum=batch.seq_lens_sum,
            extend_num_tokens=len(ids),
            extend_seq_lens=[end - start for _, _, start, end in spans],
            extend_prefix_lens=starts,
        )
        self._cached = {req.rid: (req.retraction_count, end) for req, _, _, end in spans}
        return ForwardBatch.init_new(extend, self.runner)


class ModelDrafter:
    """Drafts with a smaller model, as EAGLE expands and chooses its tree (SGLang's STANDALONE).

    The draft model has a KV pool of its own under the same slots. It first catches up with the tokens that were
    accepted since (an extend), then runs the whole tree so far once per step, each node seeing its ancestors.

    Args:
        runner: the draft model's, with the target's request pool and allocator.
        num_steps: levels of the tree; topk: branches of a node; num_draft_tokens: nodes verified, with the root.
    """

    def __init__(
        self,
        model: CausalLM,
        runner: ModelRunner,
        backend: AttentionBackend,
        num_steps: int,
        topk: int,
        num_draft_tokens: int,
    ) -> None:
        self.model, self.runner, self.backend = model, runner, backend
        self.num_steps, self.topk, self.num_draft_tokens = num_steps, topk, num_draft_tokens
        self.num_slots = max(num_draft_tokens, 1 + topk * (num_steps - 1))
        self.candidates: Candidates | None = None
        self._catch_up = CatchUp(runner)

    def draft(self, reqs: Sequence[Req], batch: ModelWorkerBatch) -> list[tuple[list[int], Tree]]:
        self._run(self._catch_up.batch(reqs, batch))
        slots = batch.out_cache_loc.view(len(reqs), -1)
        tokens = torch.tensor([[req.token_ids()[-1]] for req in reqs], device=self.runner.device)
        parents: list[list[int]] = [[-1] for _ in reqs]
        last = [[0] for _ in reqs]
        scores: torch.Tensor | None = None
        steps = []
        for i in range(self.num_steps):
            probs = self._run_tree(batch, slots, tokens, parents)[:, -len(last[0]) :].flatten(0, 1)
            best = probs.topk(self.topk, -1)
            frontier: Frontier = select_top_k_tokens(i, best.values, best.indices, scores, self.topk)
            steps.append(frontier.step)
            scores = frontier.scores
            tokens = torch.cat((tokens, frontier.input_ids), 1)
            for request, chosen in enumerate(frontier.parents.tolist()):
                parents[request] += [last[request][each] for each in chosen]
            nodes = range(tokens.shape[1] - self.topk, tokens.shape[1])
            last = [list(nodes) for _ in reqs]
        drafts = organize_draft_results(steps, self.num_draft_tokens)
        self.candidates = Candidates(steps, drafts)
        rows = zip(drafts.parents.tolist(), drafts.selected.tolist(), drafts.tokens.tolist(), reqs, strict=True)
        return [([req.token_ids()[-1], *ids], build_tree(up, chosen, self.topk)) for up, chosen, ids, req in rows]

    def _run_tree(
        self, batch: ModelWorkerBatch, slots: torch.Tensor, tokens: torch.Tensor, parents: list[list[int]]
    ) -> torch.Tensor:
        """Probabilities float32 [B, nodes, vocab] after every node so far."""
        count = tokens.shape[1]
        made = verify_batch(
            batch, self.runner, tokens, slots[:, :count], [tree_of(each) for each in parents], self.topk
        )
        return self.model.compute_logits(self._run(made)).softmax(-1).unflatten(0, (len(slots), count))

    def _run(self, batch: ForwardBatch) -> torch.Tensor:
        batch.attn_backend = self.backend
        self.backend.prepare(batch)
        assert batch.positions is not None
        hidden = self.model(batch.input_ids, batch.positions, batch)
        return hidden if batch.forward_mode.is_target_verify() else LogitsProcessor.sampled_rows(hidden, batch)


def verify_batch(
    batch: ModelWorkerBatch,
    runner: ModelRunner,
    tokens: torch.Tensor,
    slots: torch.Tensor,
    trees: Sequence[Tree],
    topk: int,
) -> ForwardBatch:
    """A pass over the nodes of draft trees.

    Args:
        batch: planned for TARGET_VERIFY.
        tokens, slots: int64 [B, nodes].
    """
    made = ForwardBatch.init_new(batch, runner)
    made.input_ids, made.out_cache_loc = tokens.flatten(), slots.flatten()
    depths = torch.tensor([tree.depths for tree in trees], device=runner.device)
    made.positions = (made.seq_lens[:, None] + depths).flatten()
    mask = full_mask(batch.seq_lens_cpu.tolist(), trees, runner.device)
    made.spec_info = VerifyInput(tokens.shape[1], mask, topk)
    made.num_token_non_padded_cpu = tokens.numel()
    return made
