"""Which layers a quantization_config means: names, patterns, and layers that are merged here."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence

from sglab.engine.errors import BadArgumentError
from sglab.layers.quantization.scheme import Scheme

Rule = Callable[[str], Scheme | None]
"""A layer's name in the checkpoint -> its format; None: not quantised."""


def matches(name: str, pattern: str) -> bool:
    """Whether a layer is meant: by its name or that of a module around it, by "re:…", or by "*" and "?".

    A pattern of the name's last parts means it, too: "gate" every gate.
    """
    if pattern.startswith("re:"):
        return re.match(pattern[3:], name) is not None
    if any(mark in pattern for mark in "*?["):
        return fnmatch.fnmatch(name, pattern)
    return f".{pattern}." in f".{name}."


def everywhere_but(skipped: Iterable[str], scheme: Scheme) -> Rule:
    """One format for every layer but those that a pattern means."""
    patterns = tuple(skipped)
    return lambda name: None if any(matches(name, pattern) for pattern in patterns) else scheme


def schemes_of(rule: Rule, names: Sequence[str]) -> list[Scheme] | None:
    """The formats of matrices that are merged here; None: none is quantised.

    Raises:
        BadArgumentError: some are and some are not.
    """
    found = [rule(name) for name in names]
    quantized = [scheme for scheme in found if scheme is not None]
    if quantized and len(quantized) < len(found):
        got = ", ".join(f"{name}: {scheme or 'none'}" for name, scheme in zip(names, found, strict=True))
        remedy = "These are one layer here: quantise all of them or none."
        raise BadArgumentError("config.json: quantization_config", "all or none of merged layers", got, remedy)
    return quantized or None
