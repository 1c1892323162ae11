"""A draft layer for notebook 18: trained in seconds on what its target says, it drafts from the target's hidden states.

It is DeepSeek's MTP layer without its attention: token and hidden state are normalised, joined and projected, and the
target's own embedding and head are used (the DeepSeek-V3 report, section 2.2). Trained as EAGLE is, to say after the
target's state what the target says one token later (https://arxiv.org/abs/2401.15077).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from sglab.engine.errors import BadArgumentError
from sglab.models import CausalLM

if TYPE_CHECKING:
    from sglab.engine import ForwardBatch, ModelConfig
    from sglab.serving import Engine

Rows = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""float32 [n, hidden], the target's states; int64 [n], the tokens after them; float32 [n, hidden], the states there."""


class DraftHead(nn.Module):
    """Says the target's next hidden state from its last one and the token that came of it.

    Args:
        target: whose embedding and head it uses; not a part of it.
    """

    def __init__(self, target: CausalLM, seed: int = 0) -> None:
        super().__init__()
        hidden = target.config.hidden_size
        self._shared = [target]
        random = torch.Generator().manual_seed(seed)
        self.eh_proj, self.out_proj = nn.Linear(2 * hidden, 2 * hidden), nn.Linear(2 * hidden, hidden)
        self.to(target.device)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=random) * 0.05)

    @property
    def embedding(self) -> torch.Tensor:
        """float32 [vocab, hidden], the target's."""
        weight = self._shared[0].get_submodule("model.embed_tokens").weight
        return cast(torch.Tensor, weight).detach().float()

    def forward(
        self,
        input_ids: torch.Tensor,
        positions: torch.Tensor | None,
        forward_batch: ForwardBatch | None,
        hidden_states: torch.Tensor,
    ) -> torch.Tensor:
        """[tokens, hidden]: the state after each of `input_ids`; positions and batch are for layers with attention."""
        states = hidden_states.float()
        joined = torch.cat((_normed(self.embedding[input_ids]), _normed(states)), -1)
        return (states + self.out_proj(nn.functional.silu(self.eh_proj(joined)))).to(hidden_states.dtype)

    def compute_logits(self, hidden_rows: torch.Tensor) -> torch.Tensor:
        return self._shared[0].compute_logits(hidden_rows)

    def attention_config(self) -> ModelConfig:
        """The KV pool of one layer, which an engine makes for a draft; this one leaves it alone."""
        return replace(self._shared[0].attention_config(), num_hidden_layers=1)


def rows_of(engine: Engine, texts: Sequence[Sequence[int]]) -> Rows:
    """Has the target read each text, and keeps its hidden states: what a draft layer learns from.

    Args:
        engine: one without a radix cache, so that every token is computed.

    Raises:
        BadArgumentError: it has one.
    """
    if not engine.config.disable_radix_cache:
        remedy = "Make it with disable_radix_cache=True: cached tokens are not computed, and leave no states."
        raise BadArgumentError("engine", "an engine without a radix cache", "one with it", remedy)
    seen: list[torch.Tensor] = []

    def keep(module: nn.Module, args: Any, output: torch.Tensor) -> None:
        seen.append(output.detach().float())

    hook = engine.model.get_submodule("model").register_forward_hook(keep)
    try:
        states = []
        for text in texts:
            seen.clear()
            engine.generate(list(text), {"temperature": 0, "max_new_tokens": 1})
            states.append(torch.cat(seen)[: len(text)])
    finally:
        hook.remove()
    ids = [torch.tensor(list(text), device=engine.runner.device) for text in texts]
    return (
        torch.cat([each[:-1] for each in states]),
        torch.cat([each[1:] for each in ids]),
        torch.cat([each[1:] for each in states]),
    )


def train(head: DraftHead, rows: Rows, steps: int = 150, size: int = 256, seed: int = 0) -> list[float]:
    """Teach `head` the target's distributions. Returns the loss of every step, in nats."""
    before, now, after = rows
    random = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(head.parameters(), 3e-3)
    embedding, losses = head.embedding, []
    with one_thread(), torch.enable_grad():
        wanted = (after @ embedding.T).softmax(-1)
        for _ in range(steps):
            pick = torch.randint(len(now), (size,), generator=random)
            said = (head(now[pick], None, None, before[pick]) @ embedding.T).log_softmax(-1)
            loss = nn.functional.kl_div(said, wanted[pick], reduction="batchmean")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


@contextmanager
def one_thread() -> Iterator[None]:
    """Products this small take longer to be dealt out than to be computed."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _normed(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
