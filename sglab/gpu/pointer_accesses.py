"""What hand-written PTX takes its pointers for: the one floating-point type of all accesses through a parameter.

PTX has no types for pointers. nvcc's are in its mangled names (`sglab.gpu.mangled`); others are read from the
instructions, and only what leaves no doubt counts: a bit type (.b32), an integer, a copy, a call or an address made of
two parameters says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from sglab.gpu.entry_text import Operand, instructions_of

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
_MOST_MIXED = 64
"""Parameters that one register's address is followed to."""

_Statement = tuple[list[str], list[Operand]]


@lru_cache(maxsize=64)
def float_pointers(ptx: str, entry: str) -> dict[str, str]:
    """Parameters of an entry through which nothing but one floating-point type is accessed: float16, bfloat16, float32
    or float64 by name. Empty where the text cannot be followed."""
    statements = [(_parts(opcode), operands) for opcode, operands in instructions_of(ptx, entry)]
    if any(opcode[0] in ("call", "alloca", "brx") for opcode, _ in statements):
        return {}
    roots = _roots(statements)
    if any(len(found) > _MOST_MIXED for found in roots.values()):
        return {}
    types: dict[str, set[str]] = {}
    for opcode, operands in statements:
        if opcode[:2] == ["ld", "param"]:
            continue
        for position, (address, names) in enumerate(operands):
            found = _united(roots, names)
            if address:
                kind = _FLOATS.get(opcode[-1], "") if opcode[0] in _ACCESSES and len(found) == 1 else ""
            elif position and opcode[0] not in ("ld", "ldu") and (opcode[0] in _ACCESSES or opcode[0] == "cp"):
                kind = ""  # the address itself is stored: who knows what comes of it
            else:
                continue
            for name in found:
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


def _parts(opcode: str) -> list[str]:
    """ld.global.L2::128B.f32 -> ld, global, L2, 128B, f32."""
    return [part for part in opcode.replace(":", ".").split(".") if part]


def _united(roots: dict[str, set[str]], names: Iterable[str]) -> set[str]:
    return set().union(*(roots.get(name, set()) for name in names))


def _roots(statements: list[_Statement]) -> dict[str, set[str]]:
    """Registers that hold an address made of parameters -> which; of more than _MOST_MIXED, not all."""
    roots: dict[str, set[str]] = {}
    for _ in range(_ROUNDS):
        before = sum(map(len, roots.values()))
        for opcode, operands in statements:
            loads = opcode[0] in _ACCESSES and opcode[1:2] != ["param"]
            if len(operands) < 2 or loads or operands[0][0]:
                continue  # what is loaded is no address of a parameter
            sources = [name for _, names in operands[1:] for name in names]
            if opcode[:2] == ["ld", "param"]:
                made = set(sources) if opcode[-1] in ("u64", "b64", "s64") else set()
            else:
                made = _united(roots, sources)
            if made:
                for name in operands[0][1]:
                    known = roots.setdefault(name, set())
                    if len(known) <= _MOST_MIXED:
                        known.update(made)
        if sum(map(len, roots.values())) == before:
            break
    return roots
