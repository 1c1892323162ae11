"""What an engine is given, in the forms in which it may come: options, prompts, a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sglab.engine import Req, SamplingParams, arguments
from sglab.engine.errors import BadArgumentError
from sglab.models import CausalLM, Tokenizer, load_tokenizer
from sglab.serving.batch_invariant import DEFAULT_SEED
from sglab.serving.config import EngineConfig
from sglab.serving.encoders import check_positions, decoder_start, encoder_context, has_encoder

Prompt = str | Sequence[int]
Sampling = SamplingParams | Mapping[str, Any] | None


@dataclass(frozen=True)
class LogprobOptions:
    """Which log probabilities a request wants, under SGLang's names.

    Attributes:
        return_logprob: of each generated token.
        logprob_start_len: also of the prompt's tokens after this position; -1: none.
        top_logprobs_num: at each of these places also of so many of the likeliest tokens.
        token_ids_logprob: and of these tokens.
    """

    return_logprob: bool = False
    logprob_start_len: int = -1
    top_logprobs_num: int = 0
    token_ids_logprob: Sequence[int] | None = None

    def checked(self, prompt: int, vocab_size: int) -> dict[str, Any]:
        """Fields of a Req whose prompt has so many tokens.

        Raises:
            BadArgumentError: a value out of its range, or one that says nothing without return_logprob.
        """
        start, remedy = self.logprob_start_len, "-1 for none of the prompt's tokens, 0 for all."
        arguments.integer("logprob_start_len", start, -1, prompt, remedy)
        arguments.integer("top_logprobs_num", self.top_logprobs_num, 0, vocab_size)
        asked = self.token_ids_logprob
        if asked is not None and (isinstance(asked, (str, bytes)) or not isinstance(asked, Sequence)):
            raise BadArgumentError("token_ids_logprob", "token ids", repr(asked), "Pass a list such as [5, 7].")
        remedy = f"The vocabulary has {vocab_size} tokens."
        ids = tuple(arguments.integer("token_ids_logprob", each, 0, vocab_size - 1, remedy) for each in asked or ())
        for name, given in (("logprob_start_len", start >= 0), ("token_ids_logprob", bool(ids))):
            if given and not self.return_logprob:
                raise BadArgumentError(name, "its default", getattr(self, name), "Pass return_logprob=True, too.")
        return {
            "return_logprob": self.return_logprob,
            "logprob_start_len": start,
            "top_logprobs_num": self.top_logprobs_num,
            "token_ids_logprob": ids,
        }


def config(options: Mapping[str, Any]) -> EngineConfig:
    """An EngineConfig of keyword arguments.

    Raises:
        BadArgumentError: an option that there is not.
    """
    known = EngineConfig.__dataclass_fields__
    for name in options:
        if name not in known:
            raise BadArgumentError("Engine", f"options among {', '.join(known)}", repr(name), "Leave it out.")
    return EngineConfig(**options)


def is_one(prompts: object) -> bool:
    """Whether this is one prompt and not several."""
    if isinstance(prompts, str):
        return True
    return not isinstance(prompts, Sequence) or bool(prompts and isinstance(prompts[0], int))


def for_each(name: str, given: Any, count: int) -> list[Any]:
    """A value for each prompt: one for all of them, or a list or tuple of as many.

    Raises:
        BadArgumentError: a list of another length.
    """
    each = list(given) if isinstance(given, (list, tuple)) else [given] * count
    if len(each) != count:
        raise BadArgumentError(name, f"one, or {count} for the prompts", len(each), "Pass as many.")
    return each


def new_request(
    prompt: Prompt,
    sampling: Sampling,
    logprobs: LogprobOptions,
    model: CausalLM,
    tokenizer: Tokenizer | None,
    deterministic: bool,
    rid: str,
    extra_key: str | None,
    decoder_prompt: Prompt | None = None,
) -> Req:
    """A request of checked values. deterministic: it has a seed, if none of its own then the engine's.

    Raises:
        BadArgumentError: naming the value that cannot be served.
    """
    params = SamplingParams.of(sampling)
    if deterministic and params.sampling_seed is None:
        params = replace(params, sampling_seed=DEFAULT_SEED)
    vocabulary = model.config.vocab_size
    params.verify(vocabulary)
    tokens = token_ids(prompt, tokenizer, vocabulary)
    begin = decoder_begin(model, tokenizer, decoder_prompt)
    wanted = logprobs.checked(len(tokens if begin is None else begin), vocabulary)
    if not isinstance(rid, str):
        raise BadArgumentError("rid", "a string", repr(rid), "Leave it out for a name of the engine's.")
    eos = frozenset(model.config.eos_token_ids)
    req = Req(rid, tokens, extra_key=extra_key, sampling_params=params, eos_token_ids=eos, **wanted)
    if begin is not None:
        _for_encoder(req, model, begin)
    return req


def decoder_begin(model: CausalLM, tokenizer: Tokenizer | None, decoder_prompt: Prompt | None) -> list[int] | None:
    """What the decoder begins with: tokens as they are, a text after its start token, or that alone; None: the model
    has no encoder."""
    if not has_encoder(model):
        if decoder_prompt is not None:
            raise BadArgumentError("decoder_prompt", "None for a decoder alone", repr(decoder_prompt), "Leave it out.")
        return None
    start = decoder_start(model)
    if decoder_prompt is None:
        return [start]
    begin = token_ids(decoder_prompt, tokenizer, model.config.vocab_size)
    return [start, *begin] if isinstance(decoder_prompt, str) else begin


def _for_encoder(req: Req, model: CausalLM, begin: list[int]) -> None:
    """The prompt is the encoder's; after it the row has what the decoder begins with, and what it says."""
    source = req.origin_input_ids
    check_positions(model, source, begin)
    req.encoder_len, req.origin_input_ids = len(source), [*source, *begin]
    if req.logprob_start_len >= 0:  # counted in the decoder's prompt: an encoder says nothing
        req.logprob_start_len += len(source)
    most = encoder_context(model) - len(begin)
    if req.sampling_params.max_new_tokens > most:
        least = min(req.sampling_params.min_new_tokens, most)
        req.sampling_params = replace(req.sampling_params, max_new_tokens=most, min_new_tokens=least)


def tokenizer_of(model: str | Path) -> Tokenizer | None:
    """The tokenizer beside a model's files, if there is one."""
    try:
        return load_tokenizer(model)
    except BadArgumentError:
        return None


def token_ids(prompt: Prompt, tokenizer: Tokenizer | None, vocab_size: int) -> list[int]:
    """A prompt's tokens.

    Raises:
        BadArgumentError: neither a text nor tokens of the vocabulary, or a text without a tokenizer.
    """
    if isinstance(prompt, str):
        if tokenizer is None:
            raise BadArgumentError("prompt", "token ids: this engine has no tokenizer", repr(prompt), "Pass one.")
        return tokenizer.encode(prompt)
    listed = prompt.tolist() if hasattr(prompt, "tolist") else prompt
    if not isinstance(listed, Sequence):
        raise BadArgumentError("prompt", "a text or token ids", repr(prompt), "Pass a string or a list of ids.")
    remedy = f"The vocabulary has {vocab_size} tokens."
    return [arguments.integer(f"prompt[{i}]", token, 0, vocab_size - 1, remedy) for i, token in enumerate(listed)]
