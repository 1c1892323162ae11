"""ChatTemplate: a conversation as the text that a checkpoint was trained on.

The template is Jinja, as Hugging Face's checkpoints bring it, in `chat_template.jinja` or in `tokenizer_config.json`.
It is a stranger's program, so it runs in Jinja's sandbox, without files, modules or changes to what it is given.
Source of names and settings: transformers' `utils/chat_template_utils.py`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sglab.engine.errors import BadArgumentError

Message = Mapping[str, Any]


class ChatTemplate:
    """A compiled template.

    Args:
        source: Jinja text.
        special: tokens that templates name, such as bos_token.

    Raises:
        BadArgumentError: no Jinja template, or the package jinja2 is missing.
    """

    def __init__(self, source: str, special: Mapping[str, str] | None = None) -> None:
        try:
            from jinja2 import TemplateError
            from jinja2.ext import loopcontrols
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            remedy = "pip install jinja2, or pass a prompt instead of messages."
            raise BadArgumentError("chat_template", "the package jinja2", "none", remedy) from None
        self._error, self.special = TemplateError, dict(special or {})
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = as_json
        environment.globals.update(raise_exception=refuse, strftime_now=lambda form: datetime.now().strftime(form))
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise BadArgumentError("chat_template", "a Jinja template", str(error), "Mend the checkpoint's.") from None

    def render(self, messages: Sequence[Message], **variables: Any) -> str:
        """The conversation, up to where the assistant's next message begins.

        Args:
            messages: role and content of each.
            variables: what else the template reads: tools, enable_thinking.

        Raises:
            BadArgumentError: the template refuses the conversation; the message is the template's.
        """
        given = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True}
        try:
            return self._template.render(**{**given, **self.special, **variables})
        except (self._error, TypeError, ValueError, KeyError) as error:
            remedy = "Pass roles in the order that the model was trained on."
            raise BadArgumentError(
                "messages", "a conversation that the model's template takes", str(error), remedy
            ) from None


def load_chat_template(folder: Path) -> ChatTemplate | None:
    """The template beside a checkpoint's tokenizer; None: it has none.

    Raises:
        BadArgumentError: tokenizer_config.json is no JSON, or the template no Jinja.
    """
    path = folder / "tokenizer_config.json"
    try:
        config = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise BadArgumentError("tokenizer_config.json", "JSON", str(error), "Fetch the checkpoint again.") from None
    special = {name: text_of(value) for name, value in config.items() if name.endswith("_token") and text_of(value)}
    source = config.get("chat_template")
    if (folder / "chat_template.jinja").is_file():
        source = (folder / "chat_template.jinja").read_text("utf-8")
    if isinstance(source, list):  # several by name
        source = {each.get("name"): each.get("template") for each in source}.get("default")
    return ChatTemplate(source, special) if isinstance(source, str) else None


def text_of(token: Any) -> str:
    """A special token's text: it may be an object with its content."""
    value = token.get("content") if isinstance(token, Mapping) else token
    return value if isinstance(value, str) else ""


def as_json(value: Any, indent: int | None = None, **_: Any) -> str:
    """Jinja's own filter would escape < and > for HTML."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def refuse(message: str) -> None:
    """What templates call as raise_exception."""
    from jinja2 import TemplateError

    raise TemplateError(message)
