"""Log probabilities of prompts: which rows of a pass are read for the token after them, and what is read.

Source: SGLang 0.5.23 `layers/logits_processor.py` and `managers/scheduler_components/logprob_result_processor.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from sglab.engine.batch.token_logprob import TokenLogprob
from sglab.engine.scheduler import ScheduledPass
from sglab.serving.sampling_info import padded

BLOCK = 256
"""Rows whose logits are held at a time."""


@dataclass(frozen=True)
class PromptRows:
    """Rows of a pass whose hidden state says how likely the prompt's next token is. All on the CPU.

    Attributes:
        rows, targets: int64 [R], of the pass's tokens, and the tokens that follow them.
        ids: int64 [R, m], tokens that are wanted besides.
        top: how many of the likeliest.
    """

    rows: torch.Tensor
    targets: torch.Tensor
    ids: torch.Tensor
    top: int

    def part(self, begin: int, end: int) -> PromptRows | None:
        """Those among the pass's tokens begin .. end - 1, counted from `begin`; None: there are none."""
        inside = (self.rows >= begin) & (self.rows < end)
        if not inside.any():
            return None
        return PromptRows(self.rows[inside] - begin, self.targets[inside], self.ids[inside], self.top)

    def read(self, hidden: torch.Tensor, compute_logits: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """float64 [R, 2 + 2 · top + m]: log probability and rank of the target, the likeliest tokens and their log
        probabilities, and those of `ids`. `hidden`: [tokens, hidden], of the pass."""
        return torch.cat([self._block(hidden, compute_logits, i) for i in range(0, len(self.rows), BLOCK)])

    def _block(
        self, hidden: torch.Tensor, compute_logits: Callable[[torch.Tensor], torch.Tensor], begin: int
    ) -> torch.Tensor:
        part = slice(begin, begin + BLOCK)
        logprobs = compute_logits(hidden[self.rows[part].to(hidden.device)]).log_softmax(-1)
        device = logprobs.device
        chosen = logprobs.gather(-1, self.targets[part].to(device)[:, None])
        rank = (logprobs > chosen).sum(-1, keepdim=True) + 1
        best = logprobs.topk(self.top, -1)
        ids = logprobs.gather(-1, self.ids[part].to(device))
        return torch.cat([one.double() for one in (chosen, rank, best.indices, best.values, ids)], -1)

    @property
    def columns(self) -> int:
        """Of what `read` returns."""
        return 2 + 2 * self.top + self.ids.shape[1]


@dataclass(frozen=True)
class PromptPart:
    """What of a request's prompt a pass reads: `count` tokens from position `start` on."""

    row: int
    """Of the request in its pass."""
    start: int
    count: int
    top: int
    ids: tuple[int, ...]


@dataclass(frozen=True)
class PromptScores:
    """A pass's rows to read, and whose they are."""

    rows: PromptRows
    parts: tuple[PromptPart, ...]

    @classmethod
    def of(cls, scheduled: ScheduledPass, vocab_size: int) -> PromptScores | None:
        """What the requests of a planned pass want read; None: nothing."""
        batch = scheduled.worker_batch
        lengths, prefixes = batch.extend_seq_lens, batch.extend_prefix_lens
        if lengths is None or prefixes is None:
            return None
        parts: list[PromptPart] = []
        rows: list[int] = []
        targets: list[int] = []
        first = 0
        for i, (entry, length, prefix) in enumerate(zip(scheduled.entries, lengths, prefixes, strict=True)):
            req, offset = entry.req, first
            begin, encoded = req.next_scored(), req.encoder_len
            first += length
            if begin is None or entry.decodes:
                continue
            prompt = req.origin_input_ids[encoded:]  # the pass's lengths are the decoder's
            positions = range(max(prefix, begin - encoded), min(prefix + length, len(prompt) - 1))
            if not positions:
                continue
            rows += [offset + position - prefix for position in positions]
            targets += prompt[positions.start + 1 : positions.stop + 1]
            top = min(req.top_logprobs_num, vocab_size)
            start = encoded + positions.start + 1
            parts.append(PromptPart(i, start, len(positions), top, req.token_ids_logprob))
        if not parts:
            return None
        ids = padded([part.ids for part in parts]).repeat_interleave(torch.tensor([part.count for part in parts]), 0)
        most = max(part.top for part in parts)
        return cls(PromptRows(torch.tensor(rows), torch.tensor(targets), ids, most), tuple(parts))

    def results(self, read: Sequence[Sequence[float]]) -> dict[int, tuple[int, list[TokenLogprob]]]:
        """What was read, request by request, as PassResult has it."""
        found, first = {}, 0
        for part in self.parts:
            rows = read[first : first + part.count]
            found[part.row] = (part.start, [self._one(row, part) for row in rows])
            first += part.count
        return found

    def _one(self, row: Sequence[float], part: PromptPart) -> TokenLogprob:
        top, most = self.rows.top, part.top
        best = [
            (int(token), value) for token, value in zip(row[2 : 2 + most], row[2 + top : 2 + top + most], strict=True)
        ]
        ids = list(zip(part.ids, row[2 + 2 * top :], strict=False))
        return TokenLogprob(row[0], int(row[1]), best, ids)
