"""Counts in sentences."""


def many(count: float, noun: str) -> str:
    """2,000 tiles; 1 tile."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def query_heads(heads: int, rows: int, blocks: int = 0) -> str:
    """How many of `heads` query heads a block of `rows` rows holds; `blocks`: that many there are, filled or not."""
    full = heads == rows * blocks if blocks else heads % rows == 0 or heads < rows
    return f"{'' if full else 'up to '}{many(min(heads, rows), 'query head')}"
