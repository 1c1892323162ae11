"""What hand-written PTX takes its pointers for: the one floating-point type of all accesses through a parameter.

PTX has no types for pointers. nvcc's are in its mangled names (`sglab.gpu.mangled`); others are read from the
instructions, and only what leaves no doubt counts: a bit type (.b32), an integer, a copy, a call or an address made of
two parameters says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from sglab.gpu.entry_text import entry_body

_STATEMENT = re.compile(
    r"\s*(?:[\w$%]+\s*:\s*)*(?:@\s*!?\s*[\w$%]+\s+)?(?P<opcode>[a-z][\w.:]*)\s*(?P<operands>.*)", re.DOTALL
)
_NAME = re.compile(r"[A-Za-z_$%][\w$%]*")
_OPERAND = re.compile(r"\[[^\[\]]*\]?|\{[^{}]*\}?|[^,\[\]{}]+")  # an open bracket without its end is one, too
_SCOPES = "{} \t\r\n\f\v"
_FLOATS = {
    "f16": "float16",
    "f16x2": "float16",
    "bf16": "bfloat16",
    "bf16x2": "bfloat16",
    "f32": "float32",
    "f64": "float64",
}
_SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
_PAIRS = {("float32", "complex64"), ("float64", "complex128"), ("float16", "complex32")}
_ACCESSES = frozenset({"ld", "ldu", "st", "atom", "red"})
_ROUNDS = 16
"""Most passes over a body until no register is learnt to hold an address; loops need two or three."""


@lru_cache(maxsize=64)
def float_pointers(ptx: str, entry: str) -> dict[str, str]:
    """Parameters of an entry through which nothing but one floating-point type is accessed: float16, bfloat16, float32
    or float64 by name. Empty where the text cannot be followed."""
    statements = list(_statements(entry_body(ptx, entry)))
    if any(opcode[0] in ("call", "alloca", "brx") for opcode, _ in statements):
        return {}
    roots = _roots(statements)
    types: dict[str, set[str]] = {}
    for opcode, operands in statements:
        if opcode[:2] == ("ld", "param"):
            continue
        for position, operand in enumerate(operands):
            names = set().union(*(roots.get(name, set()) for name in _NAME.findall(operand)))
            if operand.startswith("["):
                kind = _FLOATS.get(opcode[-1], "") if opcode[0] in _ACCESSES and len(names) == 1 else ""
            elif position and opcode[0] not in ("ld", "ldu") and (opcode[0] in _ACCESSES or opcode[0] == "cp"):
                kind = ""  # the address itself is stored: who knows what comes of it
            else:
                continue
            for name in names:
                types.setdefault(name, set()).add(kind)
    return {name: next(iter(kinds)) for name, kinds in types.items() if len(kinds) == 1 and "" not in kinds}


def contradicts(accessed: str, dtype: str, itemsize: int) -> str:
    """Why a tensor of this dtype cannot be what such a parameter points to, with a remedy; empty where it can. Bytes,
    and integers of the same size, may carry the bits of anything.

    Args:
        accessed: float16, bfloat16, float32 or float64.
        dtype: as torch names it, such as "torch.float64".
    """
    dtype = dtype.removeprefix("torch.")
    same_size = itemsize == _SIZES[accessed] and (dtype == accessed or dtype not in _SIZES)
    if same_size or itemsize == 1 or (accessed, dtype) in _PAIRS:
        return ""
    return (
        f"the PTX accesses it as {accessed} alone, and would take the bytes of {dtype} for that. Pass "
        f".to(torch.{accessed}), or .view(torch.{accessed}) if the bytes are meant"
    )


def _statements(body: str) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The parts of each instruction's opcode, and its operands."""
    for each in body.split(";"):
        text = each.lstrip(_SCOPES).rstrip()
        found = _STATEMENT.fullmatch(text)
        if found and not text.startswith("."):
            operands = [one.strip() for one in _OPERAND.findall(found["operands"]) if one.strip()]
            yield tuple(re.split(r"[.:]+", found["opcode"])), operands


def _roots(statements: list[tuple[tuple[str, ...], list[str]]]) -> dict[str, set[str]]:
    """Registers that hold an address made of parameters -> which."""
    roots: dict[str, set[str]] = {}
    for _ in range(_ROUNDS):
        before = sum(map(len, roots.values()))
        for opcode, operands in statements:
            loads = opcode[0] in _ACCESSES and opcode[1:2] != ("param",)
            if len(operands) < 2 or loads or operands[0].startswith("["):
                continue  # what is loaded is no address of a parameter
            sources = [name for operand in operands[1:] for name in _NAME.findall(operand)]
            if opcode[:2] == ("ld", "param"):
                made = set(sources) if opcode[-1] in ("u64", "b64", "s64") else set()
            else:
                made = set().union(*(roots.get(name, set()) for name in sources))
            if made:
                for name in _NAME.findall(operands[0]):
                    roots.setdefault(name, set()).update(made)
        if sum(map(len, roots.values())) == before:
            break
    return roots
