"""OpenAI's requests as the engine takes them, and its outputs as OpenAI's responses. Plain dictionaries; no web server.

Fields of SGLang's besides OpenAI's: top_k, min_p, repetition_penalty, min_tokens, ignore_eos, stop_token_ids; of vLLM's
prompt_logprobs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from sglab.engine import SamplingParams, arguments
from sglab.engine.errors import BadArgumentError
from sglab.models.tokenizer import FileTokenizer, Tokenizer
from sglab.serving.output import REPLACEMENT, Output

RENAMED = {
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "seed": "sampling_seed",
    "min_tokens": "min_new_tokens",
}
SAME = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "stop",
    "stop_token_ids",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "ignore_eos",
)
OWN = (
    *("model", "prompt", "messages", "tools", "chat_template_kwargs", "n", "stream", "stream_options"),
    *("logprobs", "top_logprobs", "echo", "prompt_logprobs", "logit_bias", "user"),
)
IGNORED = ("metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key")
"""Fields that ask nothing of a generation."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "suffix": ("",),
    "best_of": (1,),
    "response_format": ({"type": "text"},),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
}
"""Fields that OpenAI's clients may send and that do nothing at these values; others are refused."""
MOST_CHOICES = 128


@dataclass(frozen=True)
class Call:
    """A request of a client."""

    chat: bool
    prompts: list[Any]
    """Texts or lists of token ids."""
    sampling: SamplingParams
    n: int = 1
    """Choices per prompt."""
    stream: bool = False
    include_usage: bool = False
    return_logprob: bool = False
    top_logprobs_num: int = 0
    echo: bool = False
    """The text begins with the prompt, and so do the log probabilities."""
    prompt_logprobs: int | None = None
    """Give the prompt's log probabilities and so many of the likeliest tokens at each place, in vLLM's form."""
    prompt_only: bool = False
    """max_tokens 0: the one token that is generated is not given."""

    def sampling_of(self, choice: int) -> SamplingParams:
        """Of a prompt's n choices each has a seed of its own: equal ones would give equal texts."""
        seed = self.sampling.sampling_seed
        return self.sampling if seed is None or not choice else replace(self.sampling, sampling_seed=seed + choice)

    @property
    def options(self) -> dict[str, Any]:
        """What the engine takes besides prompt and sampling."""
        whole = self.prompt_logprobs is not None or (self.echo and self.return_logprob)
        return {
            "return_logprob": self.return_logprob or whole,
            "logprob_start_len": 0 if whole else -1,
            "top_logprobs_num": max(self.top_logprobs_num, self.prompt_logprobs or 0),
        }

    @classmethod
    def parse(cls, body: Mapping[str, Any], chat: bool, tokenizer: Tokenizer | None = None) -> Call:
        """Read a request's JSON.

        Args:
            tokenizer: its chat template turns messages into tokens; without one they become a line each.

        Raises:
            BadArgumentError: a field that is not known, missing or out of range.
        """
        known = {*RENAMED, *SAME, *OWN}
        for name, value in body.items():
            if name in NEUTRAL and value is not None and value not in NEUTRAL[name]:
                expected = " or ".join(map(repr, NEUTRAL[name]))
                raise BadArgumentError(name, expected, repr(value), "Leave it out: there is nothing here that does it.")
            if name not in known and name not in NEUTRAL and name not in IGNORED:
                raise BadArgumentError(name, f"fields among {', '.join(sorted(known))}", "another", "Leave it out.")
        given = {name: body[name] for name in SAME if body.get(name) is not None}
        given |= {ours: body[theirs] for theirs, ours in RENAMED.items() if body.get(theirs) is not None}
        if not chat and "max_new_tokens" not in given:
            given["max_new_tokens"] = 16
        echo, in_prompt = bool(body.get("echo")), body.get("prompt_logprobs")
        if echo and chat:
            raise BadArgumentError("echo", "nothing in a chat", True, "Use /v1/completions, or prompt_logprobs.")
        if in_prompt is not None:
            arguments.integer("prompt_logprobs", in_prompt, 0, 20)
            if body.get("stream"):
                raise BadArgumentError("prompt_logprobs", "no stream", in_prompt, "Leave stream out.")
        prompt_only = given.get("max_new_tokens") == 0 and (echo or in_prompt is not None)
        if prompt_only:
            given["max_new_tokens"] = 1
        given["logit_bias"] = _bias(body.get("logit_bias"))
        logprobs, top = body.get("logprobs"), body.get("top_logprobs") or 0
        if not chat:
            top = 0 if logprobs in (None, False) else arguments.integer("logprobs", logprobs, 0, 20)
        return cls(
            chat=chat,
            prompts=[chat_prompt(body, tokenizer)] if chat else _prompts(body.get("prompt")),
            sampling=SamplingParams.of(given),
            n=arguments.integer("n", 1 if body.get("n") is None else body["n"], 1, MOST_CHOICES),
            stream=bool(body.get("stream")),
            include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
            return_logprob=logprobs not in (None, False),
            top_logprobs_num=arguments.integer("top_logprobs", top, 0, 20),
            echo=echo,
            prompt_logprobs=in_prompt,
            prompt_only=prompt_only,
        )


def chat_prompt(body: Mapping[str, Any], tokenizer: Tokenizer | None) -> str | list[int]:
    """A conversation as the model's template has it, else as one text.

    Raises:
        BadArgumentError: not a list of messages with roles, or one that the template refuses.
    """
    messages = body.get("messages")
    shape = 'Pass [{"role": "user", "content": "…"}].'
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise BadArgumentError("messages", "a list of messages", repr(messages), shape)
    for i, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise BadArgumentError(f"messages[{i}]", "role and content, both strings", repr(message), shape)
    messages = [_with_text(message, i) for i, message in enumerate(messages)]
    if isinstance(tokenizer, FileTokenizer) and tokenizer.chat_template is not None:
        variables = body.get("chat_template_kwargs") or {}
        if not isinstance(variables, Mapping):
            raise BadArgumentError("chat_template_kwargs", "an object", repr(variables), "Leave it out.")
        return tokenizer.encode_chat(messages, tools=body.get("tools"), **variables)
    for name in ("tools", "chat_template_kwargs"):
        if body.get(name):
            remedy = "This model has no chat template that would read it: leave it out."
            raise BadArgumentError(name, "nothing", repr(body[name]), remedy)
    return chat_text(messages)


def chat_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """A line per message, for models without a template of their own.

    Raises:
        BadArgumentError: content that is no text.
    """
    lines = []
    for i, message in enumerate(messages):
        if not isinstance(message.get("content"), str):
            shape = 'Pass [{"role": "user", "content": "…"}].'
            raise BadArgumentError(f"messages[{i}]", "role and content, both strings", repr(message), shape)
        lines.append(f"{message['role']}: {message['content']}\n")
    return "".join(lines) + "assistant:"


def _with_text(message: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """A message whose content, if it came in parts, is their text.

    Raises:
        BadArgumentError: a part that is no text.
    """
    parts = message.get("content")
    if not isinstance(parts, list):
        return message
    for i, part in enumerate(parts):
        if not isinstance(part, Mapping) or part.get("type") != "text" or not isinstance(part.get("text"), str):
            where, expected = f"messages[{number}].content[{i}]", '{"type": "text", "text": "…"}'
            raise BadArgumentError(where, expected, repr(part), "This server reads texts alone.")
    return {**message, "content": "".join(part["text"] for part in parts)}


def response(call: Call, model: str, rid: str, outputs: Sequence[Output], decode: Any) -> dict[str, Any]:
    """The body of an answer that is not streamed. `decode`: token ids to text, for log probabilities."""
    choices = []
    for index, output in enumerate(outputs):
        output = without_output(output) if call.prompt_only else output
        text = output.text or ""
        if call.echo:
            text = prompt_text(call, index, output, decode) + text
        content = {"message": {"role": "assistant", "content": text}} if call.chat else {"text": text}
        given = logprobs(call, output, decode) if call.return_logprob else None
        choice: dict[str, Any] = {"index": index, **content, "logprobs": given, "finish_reason": output.finish_reason}
        if call.prompt_logprobs is not None:
            choice["prompt_logprobs"] = prompt_logprobs(call, output, decode)
        choices.append(choice)
    return {**head(call, model, rid), "choices": choices, "usage": usage(call, outputs)}


def without_output(output: Output) -> Output:
    """As if no token had been asked for."""
    return replace(output, token_ids=[], text="", logprobs=[], top_logprobs=[], finish_reason="length")


def prompt_text(call: Call, index: int, output: Output, decode: Any) -> str:
    """The prompt of a choice as it was given, or its tokens' text."""
    given = call.prompts[index // call.n]
    return given if isinstance(given, str) else decode(output.prompt_token_ids)


def first_chunk(call: Call, model: str, rid: str, index: int) -> dict[str, Any]:
    """A chat's stream begins by saying who speaks."""
    choice = {"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    return {**head(call, model, rid, ".chunk"), "choices": [choice]}


def chunk(
    call: Call, model: str, rid: str, index: int, text: str, reason: str | None, given: dict[str, Any] | None = None
) -> dict[str, Any]:
    """One event of a stream. `given`: the log probabilities of its tokens."""
    content: dict[str, Any] = {"delta": {"content": text}} if call.chat else {"text": text}
    choice = {"index": index, **content, "logprobs": given, "finish_reason": reason}
    return {**head(call, model, rid, ".chunk" if call.chat else ""), "choices": [choice]}


def head(call: Call, model: str, rid: str, suffix: str = "") -> dict[str, Any]:
    """What every answer begins with."""
    kind = f"chat.completion{suffix}" if call.chat else "text_completion"
    return {"id": rid, "object": kind, "created": int(time.time()), "model": model}


def usage(call: Call, outputs: Sequence[Output]) -> dict[str, Any]:
    """Tokens of the prompts, each counted once, and of all choices."""
    prompt = sum(len(output.prompt_token_ids) for output in outputs[:: call.n])
    completion = 0 if call.prompt_only else sum(len(output.token_ids) for output in outputs)
    cached = sum(output.cached_tokens for output in outputs[:: call.n])
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def logprobs(call: Call, output: Output, decode: Any, first: int = 0, offset: int = 0) -> dict[str, Any]:
    """In OpenAI's two forms.

    Args:
        first: the first generated token that is meant; the prompt's come before token 0 if the call has echo.
        offset: where the text of these tokens begins.
    """
    tokens = output.token_ids[first:]
    values: list[float | None] = list((output.logprobs or [])[first:])
    top: list[Any] = list((output.top_logprobs or [[]] * len(output.token_ids))[first:])
    if call.echo and first == 0 and output.input_logprobs is not None:
        before = output.prompt_token_ids
        tokens = [*before, *tokens]
        values = [*output.input_logprobs, *values]
        top = [*(output.input_top_logprobs or [None, *[[]] * (len(before) - 1)]), *top]
    texts = [decode([token]) for token in tokens]
    top = [each if each is None else each[: call.top_logprobs_num] for each in top]
    if call.chat:
        content = [
            {
                **_token(text),
                "logprob": value,
                "top_logprobs": [{**_token(decode([token])), "logprob": p} for token, p in best],
            }
            for text, value, best in zip(texts, values, top, strict=True)
        ]
        return {"content": content}
    best = [None if each is None else {decode([token]): p for token, p in each} for each in top]
    offsets = [offset + length for length in accumulate((len(text) for text in texts[:-1]), initial=0)][: len(texts)]
    return {"tokens": texts, "token_logprobs": values, "top_logprobs": best, "text_offset": offsets}


def _token(text: str) -> dict[str, Any]:
    """A token's text and its bytes; None: it is a part of a character, which has no text."""
    return {"token": text, "bytes": None if REPLACEMENT in text else list(text.encode())}


def prompt_logprobs(call: Call, output: Output, decode: Any) -> list[dict[str, Any] | None]:
    """vLLM's form: by token, of the prompt's own and of the likeliest at its place; None for the first."""
    found: list[dict[str, Any] | None] = [None]
    count, tops = call.prompt_logprobs or 0, output.input_top_logprobs or []
    for i, token in enumerate(output.prompt_token_ids[1:], 1):
        best = (tops[i] or [])[:count] if tops else []
        ranked = {one: (value, rank) for rank, (one, value) in enumerate(best, 1)}
        ranked[token] = (output.input_logprobs[i], output.input_ranks[i])  # type: ignore[index, assignment]
        found.append(
            {
                str(one): {"logprob": value, "rank": rank, "decoded_token": decode([one])}
                for one, (value, rank) in ranked.items()
            }
        )
    return found


def error_body(error: BadArgumentError, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """OpenAI's form of a refusal, which names the field as the request does."""
    names = [theirs for theirs, ours in RENAMED.items() if ours == error.argument and theirs in (body or {})]
    name = names[0] if names else error.argument
    return {
        "error": {
            "message": str(error).replace(error.argument, name),
            "type": "invalid_request_error",
            "param": name,
            "code": "bad_request",
        }
    }


def unknown_model(name: str) -> dict[str, Any]:
    """OpenAI's answer to the name of a model that is not served."""
    message = f"The model {name!r} is not served here. GET /v1/models names the one that is."
    return {"error": {"message": message, "type": "invalid_request_error", "param": "model", "code": "model_not_found"}}


def failure_body(error: BaseException | None) -> dict[str, Any]:
    """OpenAI's form of a server's own failure."""
    return {"error": {"message": str(error), "type": "server_error", "param": None, "code": "engine_failed"}}


def _prompts(prompt: Any) -> list[Any]:
    if isinstance(prompt, str):
        return [prompt]
    if not isinstance(prompt, list) or not prompt:
        raise BadArgumentError("prompt", "a text, token ids, or a list of either", repr(prompt), "Pass a string.")
    return [prompt] if isinstance(prompt[0], int) else prompt


def _bias(bias: Any) -> dict[int, float]:
    """JSON's keys are strings."""
    if bias is None:
        return {}
    if not isinstance(bias, Mapping) or not all(str(token).isdigit() for token in bias):
        raise BadArgumentError("logit_bias", "token ids with numbers", repr(bias), 'Pass {"42": 1.5}.')
    return {int(token): value for token, value in bias.items()}
