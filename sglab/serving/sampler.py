"""Sampler: from logits to tokens, greedily or by chance, with the cuts, penalties and seeds of each request.

Chance is Gumbel's: argmax(log p + noise). On a GPU a pass without cuts and seeds is one kernel's work, since the noise
needs no normalised logits. Where a request has a seed, the noise is a hash of seed, position and token,
so that the same logits give the same token in any batch. Source of the order and meaning of the cuts: SGLang 0.5.23
`layers/sampler.py` (top-k, top-p and min-p are all taken of the probabilities before any cut).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from sglab.kernels.sampling.gumbel import gumbel_argmax
from sglab.serving.sampling_info import SamplingInfo

MASK = 0xFFFFFFFF


class Sampled(NamedTuple):
    """A pass's tokens. All on the logits' device."""

    tokens: torch.Tensor
    """int64 [B]."""
    logprobs: torch.Tensor | None = None
    """float32 [B], natural, of the model's own logits: before temperature, bias and penalties."""
    top_tokens: torch.Tensor | None = None
    """int64 [B, n]."""
    top_logprobs: torch.Tensor | None = None
    """float32 [B, n], descending."""
    ids_logprobs: torch.Tensor | None = None
    """float32 [B, m], of SamplingInfo's `logprob_ids`."""


class Sampler:
    """Chooses tokens.

    Attributes:
        generator: of rows without a seed, in passes with cuts or seeds.
        state: int64 [2], seed and count of the other draws.
        in_one_pass: whether those take `gumbel_argmax`.
    """

    def __init__(self, device: torch.device, seed: int = 0) -> None:
        self.generator = torch.Generator(device).manual_seed(seed)
        self.state = torch.tensor([seed, 0], device=device)
        self.in_one_pass = device.type == "cuda"

    def __call__(
        self, logits: torch.Tensor, adjusted: torch.Tensor, positions: torch.Tensor | None, info: SamplingInfo
    ) -> Sampled:
        """Choose a token per row.

        Args:
            logits: float32 [B, vocab], the model's.
            adjusted: the same with bias, bans and penalties, or the same tensor.
            positions: int64 [B], of the tokens to be chosen; None where no request has a seed.
            info: the requests' parameters.
        """
        tokens = self._tokens(adjusted, positions, info)
        if info.top_logprobs is None:
            return Sampled(tokens)
        logprobs = logits.log_softmax(-1)
        chosen = logprobs.gather(-1, tokens[:, None])[:, 0]
        ids = None if info.logprob_ids is None else logprobs.gather(-1, info.logprob_ids)
        if not info.top_logprobs:
            return Sampled(tokens, chosen, ids_logprobs=ids)
        best = logprobs.topk(min(info.top_logprobs, logits.shape[-1]), -1)
        return Sampled(tokens, chosen, best.indices, best.values, ids)

    def _tokens(self, logits: torch.Tensor, positions: torch.Tensor | None, info: SamplingInfo) -> torch.Tensor:
        if info.all_greedy:
            return logits.argmax(-1)
        assert info.greedy is not None and info.temperatures is not None
        if self.in_one_pass and info.top_ks is None and info.seeds is None:
            return gumbel_argmax(logits, info.temperatures[:, 0], info.greedy, self.state)
        scores = distribution(logits, info) + self._noise(logits, positions, info)
        return torch.where(info.greedy, logits.argmax(-1), scores.argmax(-1))

    def _noise(self, logits: torch.Tensor, positions: torch.Tensor | None, info: SamplingInfo) -> torch.Tensor:
        free = torch.empty_like(logits).exponential_(generator=self.generator).clamp_(min=1e-38).log_().neg_()
        if info.seeds is None or info.seeded is None or positions is None:
            return free
        hashed = gumbel(uniform(info.seeds, positions, logits.shape[-1]))
        return torch.where(info.seeded[:, None], hashed, free.double())


def distribution(logits: torch.Tensor, info: SamplingInfo) -> torch.Tensor:
    """Log probabilities float32 [B, vocab] after temperature and cuts; -inf where cut, not normalised again."""
    assert info.temperatures is not None
    logprobs = (logits / info.temperatures).log_softmax(-1)
    if info.top_ks is None or info.top_ps is None or info.min_ps is None:
        return logprobs
    ordered, tokens = logprobs.sort(stable=True, dim=-1, descending=True)
    probs = ordered.exp()
    before = probs.cumsum(-1) - probs
    rank = torch.arange(logits.shape[-1], device=logits.device)
    cut = (rank >= info.top_ks) | (before > info.top_ps) | (probs < probs[:, :1] * info.min_ps)
    return torch.full_like(logprobs, -torch.inf).scatter_(-1, tokens, ordered.masked_fill(cut, -torch.inf))


def uniform(seeds: torch.Tensor, positions: torch.Tensor, count: int) -> torch.Tensor:
    """float64 [B, count] in (0, 1): a MurmurHash3 of seed, position and column."""
    state = torch.zeros_like(seeds)
    for word in (seeds & MASK, (seeds >> 32) & MASK, positions & MASK):
        state = _mix(state, word)
    columns = torch.arange(count, device=seeds.device)
    hashed = _finish(_mix(state[:, None], columns[None]) ^ 16)
    return (hashed.double() + 0.5) / 2**32


def gumbel(uniforms: torch.Tensor) -> torch.Tensor:
    """Gumbel noise of uniform numbers."""
    return -(-uniforms.log()).log()


def _mix(state: torch.Tensor, word: torch.Tensor) -> torch.Tensor:
    word = (word * 0xCC9E2D51) & MASK
    word = ((word << 15) | (word >> 17)) & MASK
    state = state ^ ((word * 0x1B873593) & MASK)
    state = ((state << 13) | (state >> 19)) & MASK
    return (state * 5 + 0xE6546B64) & MASK


def _finish(state: torch.Tensor) -> torch.Tensor:
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & MASK
    return state ^ (state >> 16)
