"""Why a request ended, under SGLang's names. Source: SGLang `managers/schedule_batch.py`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FinishReason:
    """The end of a request."""

    @property
    def kind(self) -> str:
        """As OpenAI's API has it: "length", "stop" or "abort"."""
        return "stop"


@dataclass(frozen=True)
class FinishLength(FinishReason):
    """max_new_tokens were generated."""

    length: int

    @property
    def kind(self) -> str:
        return "length"


@dataclass(frozen=True)
class FinishMatchedToken(FinishReason):
    """A stop token or an end-of-sequence token came."""

    matched: int


@dataclass(frozen=True)
class FinishMatchedStr(FinishReason):
    """A stop string came."""

    matched: str


@dataclass(frozen=True)
class FinishAbort(FinishReason):
    """The request was given up: its caller wished it, or nothing could serve it."""

    message: str = "Aborted"

    @property
    def kind(self) -> str:
        return "abort"
