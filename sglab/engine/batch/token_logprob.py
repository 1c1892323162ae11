"""TokenLogprob: what is known of a prompt's token beside its id."""

from __future__ import annotations

from typing import NamedTuple


class TokenLogprob(NamedTuple):
    """One token of a prompt, given the tokens before it. Log probabilities are natural, of the model's own logits."""

    value: float
    rank: int
    """1: the likeliest."""
    top: list[tuple[int, float]]
    """(token, log probability) of the likeliest, the likeliest first."""
    ids: list[tuple[int, float]]
    """The same of the tokens that were asked for."""
