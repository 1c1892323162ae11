"""Output: what a request generated; Handle: a request in an engine, to be read as it grows."""

from __future__ import annotations

from dataclasses import dataclass

from sglab.engine import FinishAbort, FinishMatchedStr, Req
from sglab.models import Tokenizer

REPLACEMENT = "\ufffd"


class RequestAbortedError(RuntimeError):
    """A request of `generate` was given up because of an error, which the message holds."""


@dataclass(frozen=True)
class Output:
    """A request's tokens and text, at its end or so far."""

    rid: str
    prompt_token_ids: list[int]
    token_ids: list[int]
    """Generated tokens, with the one that stopped the request."""
    text: str | None
    """None without a tokenizer. Without the stop string or stop token."""
    finish_reason: str | None
    """"length", "stop", "abort", or None: not finished."""
    error: str | None = None
    """Why it was aborted."""
    matched_stop: int | str | None = None
    """The stop token or string that ended it."""
    logprobs: list[float] | None = None
    """Natural log probability of each token, of the model's own logits."""
    top_logprobs: list[list[tuple[int, float]]] | None = None
    """Per token (token, log probability) of the likeliest, the likeliest first."""
    token_ids_logprobs: list[list[tuple[int, float]]] | None = None
    """The same of the tokens in token_ids_logprob."""
    logprob_start_len: int = -1
    """Where the prompt's log probabilities begin, with an encoder in decoder_prompt; -1: there are none."""
    input_logprobs: list[float | None] | None = None
    """Of the prompt's tokens from logprob_start_len on, each given those before it; the first is None, as in SGLang."""
    input_ranks: list[int | None] | None = None
    """1: no token was likelier."""
    input_top_logprobs: list[list[tuple[int, float]] | None] | None = None
    input_token_ids_logprobs: list[list[tuple[int, float]] | None] | None = None
    cached_tokens: int = 0
    """Tokens of the prompt that were in the radix cache."""
    retractions: int = 0


@dataclass(frozen=True)
class Delta:
    """What came since the last reading."""

    token_ids: list[int]
    text: str
    finish_reason: str | None


class Handle:
    """A submitted request."""

    def __init__(self, req: Req, tokenizer: Tokenizer | None) -> None:
        self.req = req
        self._tokenizer = tokenizer
        self._read = 0
        self._sent = ""

    @property
    def rid(self) -> str:
        """The name that the request came with; `req.rid` is the history's, which is numbered if the name came twice."""
        return self.req.client_rid

    @property
    def finished(self) -> bool:
        return self.req.finished()

    def read(self) -> Delta:
        """Tokens and text since the last call. Text that may still turn out to be a stop string is held back, and so
        is a character of which not all bytes have come."""
        tokens = list(self.req.output_ids[self._read :])
        self._read += len(tokens)
        reason = self.req.finished_reason
        text = self._text()
        if reason is None:
            held = max((len(stop) for stop in self.req.sampling_params.stop), default=1) - 1
            text = text[: len(text) - held] if held else text
            text = text.rstrip(REPLACEMENT)
        new = text[len(self._sent) :] if text.startswith(self._sent) else ""
        self._sent += new
        return Delta(tokens, new, None if reason is None else reason.kind)

    def output(self) -> Output:
        """Everything so far."""
        req, reason = self.req, self.req.finished_reason
        ids, top = bool(req.token_ids_logprob), bool(req.top_logprobs_num)
        prompt = list(req.input_logprobs) if req.return_logprob and req.logprob_start_len >= 0 else None
        return Output(
            rid=req.client_rid,
            prompt_token_ids=list(req.origin_input_ids),
            token_ids=list(req.output_ids),
            text=None if self._tokenizer is None else self._text(),
            finish_reason=None if reason is None else reason.kind,
            error=reason.message if isinstance(reason, FinishAbort) else None,
            matched_stop=getattr(reason, "matched", None),
            logprobs=list(req.output_logprobs) if req.return_logprob else None,
            top_logprobs=list(req.output_top_logprobs) if req.return_logprob and top else None,
            token_ids_logprobs=list(req.output_token_ids_logprobs) if req.return_logprob and ids else None,
            logprob_start_len=-1 if prompt is None else req.logprob_start_len - req.encoder_len,
            input_logprobs=None if prompt is None else [None, *(one.value for one in prompt)],
            input_ranks=None if prompt is None else [None, *(one.rank for one in prompt)],
            input_top_logprobs=None if prompt is None or not top else [None, *(one.top for one in prompt)],
            input_token_ids_logprobs=None if prompt is None or not ids else [None, *(one.ids for one in prompt)],
            cached_tokens=req.cached_tokens,
            retractions=req.retraction_count,
        )

    def _text(self) -> str:
        if self._tokenizer is None:
            return ""
        text = self._tokenizer.decode(self.req.text_ids())
        reason = self.req.finished_reason
        return text[: text.find(reason.matched)] if isinstance(reason, FinishMatchedStr) else text
