"""GraphInputBuffers: the fixed tensors that every captured size reads its batch from.

Source: SGLang 0.5.9 `model_executor/{cuda_graph_runner,input_buffers}.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from sglab.engine.batch.forward_batch import ForwardBatch
from sglab.engine.batch.schedule_batch import ModelWorkerBatch


@dataclass(frozen=True)
class GraphInputBuffers:
    """int64, as long as the largest captured size. A graph of size bs reads the first bs entries."""

    input_ids: torch.Tensor
    req_pool_indices: torch.Tensor
    seq_lens: torch.Tensor
    out_cache_loc: torch.Tensor
    positions: torch.Tensor
    state_indices: torch.Tensor
    fill: int
    """Length of padded rows."""
    dummy_state: int
    """Row of the state pool that padded rows share; models without states read none."""
    real: torch.Tensor
    """1 for a request, 0 for padding: what a graph that goes on by itself adds to `seq_lens` (`advance`)."""
    encoder_lens: torch.Tensor | None = None
    """Of models with an encoder; padded rows attend to one of its tokens, so that their rows stay finite."""

    @classmethod
    def make(
        cls, max_bs: int, fill: int, device: torch.device, dummy_state: int = 0, encoder: bool = False
    ) -> GraphInputBuffers:
        def zeros() -> torch.Tensor:
            return torch.zeros(max_bs, dtype=torch.int64, device=device)

        encoder_lens = torch.ones(max_bs, dtype=torch.int64, device=device) if encoder else None
        buffers = cls(zeros(), zeros(), zeros(), zeros(), zeros(), zeros(), fill, dummy_state, zeros(), encoder_lens)
        buffers.seq_lens.fill_(fill)
        buffers.state_indices.fill_(dummy_state)
        return buffers

    def copy_from(self, batch: ForwardBatch, bs: int) -> None:
        """Write a batch in place, padded to `bs`.

        Padded rows get the fill length and slot 0, before the copies. Their request rows, tokens and positions are
        what the replay before left there: they attend to one token and write to the dummy page, which no request reads.
        A batch without positions is of a graph that makes its tokens and positions of the other inputs (`derive`).
        """
        raw = batch.batch_size
        if raw != bs:
            self.seq_lens.fill_(self.fill)
            self.out_cache_loc.zero_()
            self.state_indices.fill_(self.dummy_state)
            if self.encoder_lens is not None:
                self.encoder_lens.fill_(1)
        kept = [self.req_pool_indices, self.state_indices, self.seq_lens, self.out_cache_loc]
        given = [batch.req_pool_indices, batch.req_pool_indices, batch.seq_lens, batch.out_cache_loc]
        if batch.positions is not None:
            kept, given = [*kept, self.input_ids, self.positions], [*given, batch.input_ids, batch.positions]
        torch._foreach_copy_([each[:raw] for each in kept], given)
        if self.encoder_lens is not None and batch.encoder_lens is not None:
            self.encoder_lens[:raw].copy_(batch.encoder_lens)

    def begin(self, batch: ModelWorkerBatch | ForwardBatch) -> None:
        """Write a decode in place for a graph that begins with `advance`: lengths are those before its tokens.

        Padded rows are as `copy_from` leaves them.
        """
        raw = len(batch.req_pool_indices)
        self.real.zero_()
        self.real[:raw].fill_(1)
        self.seq_lens.fill_(self.fill)
        self.out_cache_loc.zero_()
        self.state_indices.fill_(self.dummy_state)
        kept = [self.req_pool_indices, self.state_indices, self.seq_lens, self.out_cache_loc]
        given = [batch.req_pool_indices, batch.req_pool_indices, batch.seq_lens - 1, batch.out_cache_loc]
        torch._foreach_copy_([each[:raw] for each in kept], given)

    def advance(self, bs: int, last_tokens: torch.Tensor, req_to_token: torch.Tensor) -> None:
        """While a graph of size `bs` is captured: launch what makes a pass's inputs of those of the pass before, but
        for its slots, and what writes these to the requests' rows.

        Args:
            last_tokens: as `derive` takes them.
            req_to_token: int32 [rows of the request pool + 1, context]; padded rows write to the last one.
        """
        self.seq_lens[:bs].add_(self.real[:bs])
        self.derive(bs, last_tokens)
        where = (self.state_indices[:bs], self.positions[:bs])
        req_to_token.index_put_(where, self.out_cache_loc[:bs].to(req_to_token.dtype))

    @contextmanager
    def advanced(self, bs: int) -> Iterator[None]:
        """Inside, lengths are as they will be after `advance`."""
        self.seq_lens[:bs].add_(self.real[:bs])
        yield
        self.seq_lens[:bs].sub_(self.real[:bs])

    def derive(self, bs: int, last_tokens: torch.Tensor) -> None:
        """While a graph of size `bs` is captured: launch what makes its tokens and positions of its other inputs.

        Args:
            last_tokens: int64 [rows of the request pool + 1], what each row's last pass sampled; padded rows have the
                last entry, `dummy_state`.
        """
        torch.index_select(last_tokens, 0, self.state_indices[:bs], out=self.input_ids[:bs])
        torch.sub(self.seq_lens[:bs], 1, out=self.positions[:bs])
        self.positions[:bs].clamp_(min=0)
