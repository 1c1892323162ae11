"""OpenAI's requests as the engine takes them, and its outputs as OpenAI's responses. Plain dictionaries; no web server.

Fields of SGLang's besides OpenAI's: top_k, min_p, repetition_penalty, min_tokens, ignore_eos, stop_token_ids.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sglab.engine import SamplingParams, arguments
from sglab.engine.errors import BadArgumentError
from sglab.models.tokenizer import FileTokenizer, Tokenizer
from sglab.serving.output import Output

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
    *("logprobs", "top_logprobs", "logit_bias", "user"),
)
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

    @classmethod
    def parse(cls, body: Mapping[str, Any], chat: bool, tokenizer: Tokenizer | None = None) -> Call:
        """Read a request's JSON.

        Args:
            tokenizer: its chat template turns messages into tokens; without one they become a line each.

        Raises:
            BadArgumentError: a field that is not known, missing or out of range.
        """
        known = {*RENAMED, *SAME, *OWN}
        for name in body:
            if name not in known:
                raise BadArgumentError(name, f"fields among {', '.join(sorted(known))}", "another", "Leave it out.")
        given = {name: body[name] for name in SAME if body.get(name) is not None}
        given |= {ours: body[theirs] for theirs, ours in RENAMED.items() if body.get(theirs) is not None}
        if not chat and "max_new_tokens" not in given:
            given["max_new_tokens"] = 16
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


def response(call: Call, model: str, rid: str, outputs: Sequence[Output], decode: Any) -> dict[str, Any]:
    """The body of an answer that is not streamed. `decode`: token ids to text, for log probabilities."""
    choices = []
    for index, output in enumerate(outputs):
        text = output.text or ""
        content = {"message": {"role": "assistant", "content": text}} if call.chat else {"text": text}
        given = logprobs(call, output, decode) if call.return_logprob else None
        choices.append({"index": index, **content, "logprobs": given, "finish_reason": output.finish_reason})
    return {**head(call, model, rid), "choices": choices, "usage": usage(call, outputs)}


def chunk(call: Call, model: str, rid: str, index: int, text: str, reason: str | None) -> dict[str, Any]:
    """One event of a stream."""
    content: dict[str, Any] = {"delta": {"content": text}} if call.chat else {"text": text}
    choice = {"index": index, **content, "logprobs": None, "finish_reason": reason}
    return {**head(call, model, rid, ".chunk" if call.chat else ""), "choices": [choice]}


def head(call: Call, model: str, rid: str, suffix: str = "") -> dict[str, Any]:
    """What every answer begins with."""
    kind = f"chat.completion{suffix}" if call.chat else "text_completion"
    return {"id": rid, "object": kind, "created": int(time.time()), "model": model}


def usage(call: Call, outputs: Sequence[Output]) -> dict[str, Any]:
    """Tokens of the prompts, each counted once, and of all choices."""
    prompt = sum(len(output.prompt_token_ids) for output in outputs[:: call.n])
    completion = sum(len(output.token_ids) for output in outputs)
    cached = sum(output.cached_tokens for output in outputs[:: call.n])
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def logprobs(call: Call, output: Output, decode: Any) -> dict[str, Any]:
    """In OpenAI's two forms."""
    values, top = output.logprobs or [], output.top_logprobs or [[] for _ in output.token_ids]
    texts = [decode([token]) for token in output.token_ids]
    if call.chat:
        content = [
            {
                "token": text,
                "logprob": value,
                "top_logprobs": [{"token": decode([token]), "logprob": p} for token, p in best],
            }
            for text, value, best in zip(texts, values, top, strict=True)
        ]
        return {"content": content}
    best = [{decode([token]): p for token, p in each} for each in top]
    return {"tokens": texts, "token_logprobs": values, "top_logprobs": best}


def error_body(error: BadArgumentError) -> dict[str, Any]:
    """OpenAI's form of a refusal."""
    return {
        "error": {
            "message": str(error),
            "type": "invalid_request_error",
            "param": error.argument,
            "code": "bad_request",
        }
    }


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
