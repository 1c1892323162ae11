"""HiddenDrafter: drafts from the target's hidden states, as EAGLE and DeepSeek's MTP do.

The draft layer's input at position i is the token at i + 1 and the target's hidden state at i; it says the token at
i + 2. Further down the tree its own output stands for the target's state. Source: SGLang `speculative/eagle_worker.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from sglab.attention import AttentionBackend
from sglab.engine import ForwardBatch, ModelConfig, ModelRunner, Req
from sglab.engine.batch import ModelWorkerBatch
from sglab.engine.speculation import (
    Tree,
    VerifyInput,
    build_tree,
    organize_draft_results,
    select_top_k_tokens,
    tree_of,
)
from sglab.layers import LogitsProcessor
from sglab.serving.drafters import Candidates, CatchUp


class DraftLayer(Protocol):
    """A model that drafts from hidden states: `sglab.models.DeepseekMTP`."""

    def __call__(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor,
        forward_batch: ForwardBatch,
        hidden_states: torch.Tensor,
    ) -> torch.Tensor: ...

    def compute_logits(self, hidden_rows: torch.Tensor) -> torch.Tensor: ...

    def attention_config(self) -> ModelConfig: ...


class HiddenDrafter:
    """Drafts a tree per request.

    Args:
        runner: the draft's, with the target's request pool and allocator and a KV pool of its own.
        states: [slots, hidden], the target's hidden state of the token in each slot; the target's worker fills it.
        num_steps: levels of the tree; topk: branches of a node; num_draft_tokens: nodes verified, with the root.
    """

    def __init__(
        self,
        model: DraftLayer,
        runner: ModelRunner,
        backend: AttentionBackend,
        states: torch.Tensor,
        num_steps: int,
        topk: int,
        num_draft_tokens: int,
    ) -> None:
        self.model, self.runner, self.backend, self.states = model, runner, backend, states
        self.num_steps, self.topk, self.num_draft_tokens = num_steps, topk, num_draft_tokens
        self.num_slots = max(num_draft_tokens, topk * (num_steps - 1))
        self.candidates: Candidates | None = None
        self._catch_up = CatchUp(runner)

    def draft(self, reqs: Sequence[Req], batch: ModelWorkerBatch) -> list[tuple[list[int], Tree]]:
        extend = self._catch_up.batch(reqs, batch, shift=1)
        hidden = self._run(extend, self.states[extend.out_cache_loc])
        last = LogitsProcessor.sampled_rows(hidden, extend)
        slots = batch.out_cache_loc.to(self.runner.device).view(len(reqs), -1)
        best = self.model.compute_logits(last).softmax(-1).topk(self.topk, -1)
        frontier = select_top_k_tokens(0, best.values, best.indices, None, self.topk)
        steps, parents = [frontier.step], [[-1] * self.topk for _ in reqs]
        tokens, inputs = frontier.input_ids, last[:, None].expand(-1, self.topk, -1)
        for i in range(1, self.num_steps):
            outputs = self._run_nodes(batch, slots, tokens, inputs, parents)
            newest = outputs[:, -self.topk :]
            best = self.model.compute_logits(newest.flatten(0, 1)).softmax(-1).topk(self.topk, -1)
            frontier = select_top_k_tokens(i, best.values, best.indices, frontier.scores, self.topk)
            steps.append(frontier.step)
            first = tokens.shape[1] - self.topk
            for request, chosen in enumerate(frontier.parents.tolist()):
                parents[request] += [first + each for each in chosen]
            below = frontier.parents[..., None].expand(-1, -1, newest.shape[2])
            inputs = torch.cat((inputs, newest.gather(1, below)), 1)
            tokens = torch.cat((tokens, frontier.input_ids), 1)
        drafts = organize_draft_results(steps, self.num_draft_tokens)
        self.candidates = Candidates(steps, drafts)
        rows = zip(drafts.parents.tolist(), drafts.selected.tolist(), drafts.tokens.tolist(), reqs, strict=True)
        return [([req.token_ids()[-1], *ids], build_tree(up, chosen, self.topk)) for up, chosen, ids, req in rows]

    def _run_nodes(
        self,
        batch: ModelWorkerBatch,
        slots: torch.Tensor,
        tokens: torch.Tensor,
        inputs: torch.Tensor,
        parents: list[list[int]],
    ) -> torch.Tensor:
        """[B, nodes, hidden] after every node so far, each of which sees the request and its ancestors."""
        count = tokens.shape[1]
        trees = [tree_of([-1, *(parent + 1 for parent in each)]) for each in parents]
        made = ForwardBatch.init_new(batch, self.runner)
        made.input_ids, made.out_cache_loc = tokens.flatten(), slots[:, :count].flatten()
        depths = torch.tensor([tree.depths[1:] for tree in trees], device=self.runner.device)
        made.positions = (made.seq_lens[:, None] + depths - 1).flatten()
        mask = forest_mask(batch.seq_lens_cpu.tolist(), trees).to(self.runner.device)
        made.spec_info = VerifyInput(count, mask, max(self.topk, 2))
        made.num_token_non_padded_cpu = tokens.numel()
        return self._run(made, inputs.flatten(0, 1)).unflatten(0, (len(slots), count))

    def _run(self, batch: ForwardBatch, states: torch.Tensor) -> torch.Tensor:
        batch.attn_backend = self.backend
        self.backend.prepare(batch)
        assert batch.positions is not None
        return self.model(batch.input_ids, batch.positions, batch, states)


def forest_mask(prefixes: Sequence[int], trees: Sequence[Tree]) -> torch.Tensor:
    """FULL_MASK of trees without their roots, which lie in the prefix."""
    parts = []
    for prefix, tree in zip(prefixes, trees, strict=True):
        own = torch.tensor(tree.mask)[1:, 1:]
        parts.append(torch.cat((torch.ones(len(own), prefix, dtype=torch.bool), own), 1).flatten())
    return torch.cat(parts)
