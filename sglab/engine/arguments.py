"""Checks of plain arguments: numbers, lengths, names. Refusals name the argument, the expectation and the remedy."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable

import torch

from sglab.engine.errors import BadArgumentError

DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
INT32_MAX = 2**31 - 1


def integer(name: str, value: object, least: int, most: int = INT32_MAX, remedy: str = "") -> int:
    """`value` as an int in least..most; a float that happens to be whole is refused, as Python's indexing does."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or not least <= number <= most:
        too_large = number is not None and number > most
        expected = (
            f"an integer {least}..{most}" if most != INT32_MAX or too_large else f"an integer of at least {least}"
        )
        raise BadArgumentError(name, expected, repr(value), remedy or f"Pass {name}={max(least, 1)} or more.")
    return number


def lengths(name: str, values: object, least: int) -> list[int]:
    """One or more integers, from a list, tuple, array or tensor of one dimension."""
    given = values.tolist() if hasattr(values, "tolist") else values
    example = f"Give every request a length, such as {name}=[300, 1000, 77]."
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise BadArgumentError(name, "a list of lengths", repr(values), example)
    listed = list(given)
    if not listed:
        raise BadArgumentError(name, f"one or more lengths, each at least {least}", "[]", example)
    return [integer(f"{name}[{i}]", value, least, remedy=example) for i, value in enumerate(listed)]


def pool_size(size: int, page_size: int) -> None:
    """Of an allocator and its pool: whole pages, one at least."""
    if page_size < 1 or size < page_size or size % page_size:
        expected = f"a positive multiple of page_size {page_size}"
        raise BadArgumentError("size", expected, size, "Choose a page size that divides the pool.")


def indices(name: str, value: object, remedy: str) -> torch.Tensor:
    """`value` as an int64 tensor, if it is an integer tensor."""
    if not isinstance(value, torch.Tensor) or value.dtype not in (torch.int32, torch.int64):
        got = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        raise BadArgumentError(name, "an int32 or int64 tensor", got, remedy)
    return value.to(torch.int64)


def finite(name: str, value: object, least: float = -math.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < least:
        expected = "a finite number" if least == -math.inf else f"a finite number of at least {least:g}"
        raise BadArgumentError(name, expected, repr(value), "Leave it out for the default.")
    return float(value)


def positive(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise BadArgumentError(name, "a positive finite number", repr(value), "Leave it out for the default.")
    return float(value)


def choice(name: str, value: object, choices: Iterable[str]) -> None:
    known = tuple(choices)
    if value not in known:
        raise BadArgumentError(name, " or ".join(map(repr, known)), repr(value), "Choose one of them.")


def power_of_two(name: str, value: object) -> int:
    try:
        number = integer(name, value, 1)
    except BadArgumentError:
        number = 0
    if number < 1 or number & (number - 1):
        raise BadArgumentError(name, "a power of two", repr(value), "Kernels use 1, 16, 32, 64 or 128.")
    return number


def dtype(name: str, value: object) -> torch.dtype:
    found = DTYPES.get(str(value).removeprefix("torch."))
    if found is None:
        raise BadArgumentError(name, " or ".join(DTYPES), repr(value), "Choose one of them.")
    return found


def device(name: str, value: object) -> torch.device:
    """A device that this torch can put tensors on."""
    try:
        found = torch.device(value)  # type: ignore[call-overload]
    except (RuntimeError, TypeError):
        raise BadArgumentError(name, "'cpu', 'cuda' or 'cuda:N'", repr(value), "Choose one of them.") from None
    if found.type not in ("cpu", "cuda"):
        raise BadArgumentError(name, "'cpu', 'cuda' or 'cuda:N'", repr(value), "Choose one of them.")
    present = torch.cuda.device_count() if found.type == "cuda" else 1
    if found.type == "cuda" and (found.index or 0) >= present:
        has = "no GPU that torch can use" if not present else f"{present} GPU{'s' * (present > 1)}"
        remedy = "Use device='cpu', or see `sglab doctor` for what a GPU would need."
        raise BadArgumentError(name, "a device of this machine", f"{value!r} where there is {has}", remedy)
    return found
