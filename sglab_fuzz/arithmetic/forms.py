"""Every mnemonic of the table's arithmetic families, and the forms that compare it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

from sglab import _core
from sglab_fuzz.arithmetic import compare, convert, floats, integers
from sglab_fuzz.arithmetic.form import Form

FAMILIES: dict[str, Callable[[str], Iterator[Form]]] = {
    "Integer arithmetic": integers.forms,
    "Logic, shifts and bit fields": integers.forms,
    "f16 and bf16 arithmetic": floats.forms,
    "f32 and f64 arithmetic": floats.forms,
    "Comparison and selection": compare.forms,
    "Conversion": convert.forms,
}
_ITEM = re.compile(r"\[([^\]]*)\]|\.\{([^}]*)\}|\.([^.\[{]+)")


def mnemonics(pattern: str) -> Iterator[str]:
    """All mnemonics of a row's pattern."""
    opcode = re.split(r"[.\[]", pattern)[0]
    items = []
    for optional, choices, fixed in _ITEM.findall(pattern[len(opcode) :]):
        names = [f".{name.lstrip('.')}" for name in (optional or choices or fixed).split("|")]
        items.append(["", *names] if optional else names)
    yield from (opcode + "".join(parts) for parts in product(*items))


@cache
def table() -> dict[str, list[Form]]:
    """Mnemonic -> its forms; an empty list: no oracle."""
    found: dict[str, list[Form]] = {}
    for family, pattern, _ in _core.instruction_forms():
        if family in FAMILIES:
            for mnemonic in mnemonics(pattern):
                if mnemonic not in found:
                    found[mnemonic] = list(FAMILIES[family](mnemonic))
    return found


@cache
def all_forms() -> tuple[Form, ...]:
    """Every form, in the table's order."""
    return tuple(form for forms in table().values() for form in forms)
