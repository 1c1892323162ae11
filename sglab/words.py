"""Numbers with their nouns, as people write them."""

from __future__ import annotations


def plural(count: int, noun: str, nouns: str = "") -> str:
    """ "1 page", "3 pages", "1,024 passes"."""
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"
