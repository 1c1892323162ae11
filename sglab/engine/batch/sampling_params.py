"""SamplingParams: how a request's tokens are chosen, and when it stops.

Source: SGLang 0.5.23 `sampling/sampling_params.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from sglab.engine.arguments import integer
from sglab.engine.errors import BadArgumentError

GREEDY_BELOW = 1e-6
"""A temperature below this is greedy."""
TOP_K_ALL = 1 << 30
"""top_k of a request that chooses from the whole vocabulary."""
MAX_STOP_COUNT = 32
SEED_LIMIT = 2**63


@dataclass(frozen=True)
class SamplingParams:
    """One request's sampling; every value is checked when it is made.

    Raises:
        BadArgumentError: a value out of its range; the message names it.
    """

    max_new_tokens: int = 128
    stop: tuple[str, ...] = ()
    """Strings that end the text; a string or several. They are not part of the text returned."""
    stop_token_ids: frozenset[int] = frozenset()
    """Tokens that end the text, besides the model's own end-of-sequence tokens."""
    temperature: float = 1.0
    """0: greedy."""
    top_p: float = 1.0
    top_k: int = -1
    """-1: the whole vocabulary."""
    min_p: float = 0.0
    """Tokens less likely than this times the likeliest are left out."""
    frequency_penalty: float = 0.0
    """Subtracted from a token's logit once for each time that it was generated."""
    presence_penalty: float = 0.0
    """Subtracted once from the logit of every token that was generated."""
    repetition_penalty: float = 1.0
    """Divides positive, multiplies negative logits of tokens that were generated (SGLang leaves the prompt out)."""
    min_new_tokens: int = 0
    """Stop tokens cannot be chosen before this many."""
    ignore_eos: bool = False
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    sampling_seed: int | None = None
    """With a seed a token depends on seed, position and logits alone, whatever else is in the batch."""

    def __post_init__(self) -> None:
        self._set("max_new_tokens", integer("max_new_tokens", self.max_new_tokens, 1))
        self._set("min_new_tokens", integer("min_new_tokens", self.min_new_tokens, 0))
        if self.min_new_tokens > self.max_new_tokens:
            expected = f"at most max_new_tokens {self.max_new_tokens}"
            raise BadArgumentError("min_new_tokens", expected, self.min_new_tokens, "Lower it or raise the other.")
        self._number("temperature", 0.0, math.inf, "0 (greedy) or a positive finite number")
        self._number("top_p", 0.0, 1.0, "above 0 and at most 1", above=True)
        self._number("min_p", 0.0, 1.0, "0..1")
        self._number("frequency_penalty", -2.0, 2.0, "-2..2")
        self._number("presence_penalty", -2.0, 2.0, "-2..2")
        self._number("repetition_penalty", 0.0, 2.0, "above 0 and at most 2 (1 is none)", above=True)
        if self.top_k != -1:
            self._set("top_k", integer("top_k", self.top_k, 1, TOP_K_ALL, "Pass -1 for the whole vocabulary."))
        self._stops()
        seed = self.sampling_seed
        if seed is not None and (
            isinstance(seed, bool) or not isinstance(seed, int) or not -SEED_LIMIT <= seed < SEED_LIMIT
        ):
            raise BadArgumentError("sampling_seed", "an integer of 64 bits, or None", repr(seed), "Choose another.")
        self._set("logit_bias", {token: self._bias(token, bias) for token, bias in dict(self.logit_bias).items()})

    @classmethod
    def of(cls, given: SamplingParams | Mapping[str, Any] | None) -> SamplingParams:
        """`given` as it is, or made from a mapping of its fields.

        Raises:
            BadArgumentError: an unknown field or a value out of its range.
        """
        if isinstance(given, cls):
            return given
        if given is not None and not isinstance(given, Mapping):
            expected = "SamplingParams or a mapping of its fields"
            raise BadArgumentError("sampling", expected, repr(given), "Pass {'max_new_tokens': 16, 'temperature': 0}.")
        known = {each.name for each in fields(cls)}
        for name in given or {}:
            if name not in known:
                raise BadArgumentError(
                    "sampling", f"fields among {', '.join(sorted(known))}", repr(name), "Leave it out."
                )
        return cls(**(given or {}))

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is always the one."""
        return self.temperature < GREEDY_BELOW or self.top_k == 1

    @property
    def has_penalty(self) -> bool:
        """Whether the logits depend on what was generated."""
        return self.frequency_penalty != 0 or self.presence_penalty != 0 or self.repetition_penalty != 1

    def verify(self, vocab_size: int) -> None:
        """Refuse tokens outside the vocabulary.

        Raises:
            BadArgumentError: in stop_token_ids or logit_bias.
        """
        for name, tokens in (("stop_token_ids", self.stop_token_ids), ("logit_bias", self.logit_bias)):
            for token in tokens:
                integer(f"{name}'s token", token, 0, vocab_size - 1, f"The vocabulary has {vocab_size} tokens.")

    def _stops(self) -> None:
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        if len(stop) > MAX_STOP_COUNT or not all(isinstance(each, str) and each for each in stop):
            expected = f"at most {MAX_STOP_COUNT} strings, none empty"
            raise BadArgumentError("stop", expected, repr(self.stop), "Leave it out for none.")
        self._set("stop", stop)
        tokens = self.stop_token_ids or ()
        if isinstance(tokens, (str, bytes)) or not isinstance(tokens, Iterable):
            raise BadArgumentError("stop_token_ids", "token ids", repr(tokens), "Pass a list such as [2].")
        self._set(
            "stop_token_ids", frozenset(integer("stop_token_ids", each, 0, remedy="Pass token ids.") for each in tokens)
        )

    def _number(self, name: str, least: float, most: float, expected: str, above: bool = False) -> None:
        value = getattr(self, name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
        if not number or not least <= value <= most or (above and value == least):
            raise BadArgumentError(name, expected, repr(value), "Leave it out for the default.")
        self._set(name, float(value))

    def _bias(self, token: Any, bias: Any) -> float:
        integer("logit_bias's token", token, 0, remedy="Its keys are token ids.")
        if isinstance(bias, bool) or not isinstance(bias, (int, float)) or not math.isfinite(bias):
            raise BadArgumentError(f"logit_bias[{token}]", "a finite number", repr(bias), "Leave the token out.")
        return float(bias)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
