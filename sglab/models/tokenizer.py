"""Text to token ids and back: bytes for the shipped model, the package tokenizers for checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from sglab.engine.errors import BadArgumentError
from sglab.models.chat_template import ChatTemplate, Message, load_chat_template
from sglab.models.loader import model_folder, read_config


class Tokenizer(Protocol):
    def encode(self, text: str) -> list[int]: ...

    def decode(self, token_ids: Sequence[int]) -> str: ...


class ByteTokenizer:
    """A token is a byte of UTF-8; ids from 256 on are marks (begin, end, padding) that are no text.

    Args:
        bos_token_id: put first by `encode`; None: nothing is.
    """

    def __init__(self, bos_token_id: int | None = None) -> None:
        self.bos_token_id = bos_token_id

    def encode(self, text: str) -> list[int]:
        first = [] if self.bos_token_id is None else [self.bos_token_id]
        return first + list(text.encode("utf-8"))

    def decode(self, token_ids: Sequence[int]) -> str:
        """Bytes that are no UTF-8, such as half a character, become U+FFFD."""
        return bytes(token for token in token_ids if token < 256).decode("utf-8", errors="replace")


class FileTokenizer:
    """A checkpoint's tokenizer.json, through the package tokenizers.

    Attributes:
        chat_template: the checkpoint's; None: it has none.
    """

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer as Loaded
        except ImportError:
            remedy = "pip install tokenizers, or pass token ids instead of text."
            raise BadArgumentError("tokenizer", "the package tokenizers", "none", remedy) from None
        self._loaded = Loaded.from_file(str(path))
        self.chat_template: ChatTemplate | None = load_chat_template(path.parent)

    def encode(self, text: str) -> list[int]:
        return list(self._loaded.encode(text).ids)

    def encode_chat(self, messages: Sequence[Message], **variables: Any) -> list[int]:
        """A conversation by the checkpoint's template, which puts the special tokens itself.

        Raises:
            BadArgumentError: there is no template, or it refuses the conversation.
        """
        if self.chat_template is None:
            remedy = "Pass a prompt: this model was not trained on conversations."
            raise BadArgumentError("messages", "a checkpoint with a chat template", "none", remedy)
        text = self.chat_template.render(messages, **variables)
        return list(self._loaded.encode(text, add_special_tokens=False).ids)

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._loaded.decode(list(token_ids)))


def load_tokenizer(path_or_id: str | Path) -> Tokenizer:
    """The tokenizer beside a model: tokenizer.json, or bytes where config.json says "tokenizer": "bytes".

    Raises:
        BadArgumentError: it has none.
    """
    folder = model_folder(path_or_id, weights=False)
    config = read_config(folder)
    if config.get("tokenizer") == "bytes":
        return ByteTokenizer(config.get("bos_token_id"))
    if (folder / "tokenizer.json").is_file():
        return FileTokenizer(folder / "tokenizer.json")
    remedy = "Pass token ids instead of text."
    raise BadArgumentError("tokenizer", "tokenizer.json beside config.json", str(folder), remedy)
