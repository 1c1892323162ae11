"""Counts in sentences."""


def many(count: float, noun: str) -> str:
    """2,000 tiles; 1 tile."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
