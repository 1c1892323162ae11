"""A tokenizer whose tokens are letters."""

from collections.abc import Sequence

from tests.support.serving.tiny import VOCAB


class Letters:
    """Token n is the character 64 + n; encoding takes any character's code modulo the vocabulary."""

    def encode(self, text: str) -> list[int]:
        return [ord(letter) % VOCAB for letter in text]

    def decode(self, token_ids: Sequence[int]) -> str:
        return "".join(chr(64 + token) for token in token_ids)
