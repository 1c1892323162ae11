"""What an engine is given, in the forms in which it may come: options, prompts, a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sglab.engine import SamplingParams, arguments
from sglab.engine.errors import BadArgumentError
from sglab.models import Tokenizer, load_tokenizer
from sglab.serving.config import EngineConfig

Prompt = str | Sequence[int]
Sampling = SamplingParams | Mapping[str, Any] | None


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
