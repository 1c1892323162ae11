"""Asks ptxas in which orders it takes the qualifiers of every row of the emulator's table.

    python -m tests.emulator.golden.make_modifier_orders

Writes modifier_orders.txt.xz beside this file: one mnemonic per line that ptxas takes for sm_90a or sm_100a. ptxas is
asked without operands: it says "Arguments mismatch" of what it knows, and names the qualifier that it does not. Of an
instruction that has no operands it says nothing.
"""

from __future__ import annotations

import lzma
import random
import re
import subprocess
import tempfile
from pathlib import Path

from sglab import _core

GOLDEN = Path(__file__).parent / "modifier_orders.txt.xz"
ARCHES = ("sm_90a", "sm_100a")
ORDERS = 4  # permutations of each mnemonic
ITEM = re.compile(r"\[\.[^\]]*\]|\.\{[^}]*\}|\.[^.\[]+")
ERROR = re.compile(r"line (\d+); error\s*: (.*)")
KNOWN = re.compile(r"Arguments mismatch for instruction '(.*)'")
# Qualifiers that keep their order among themselves: which operand they speak of depends on it.
ORDERED = (
    re.compile(r"(b|s|u|f|bf|tf|e|ue)\d.*"),
    re.compile(r"global|local|const|param.*|shared.*"),
    re.compile(r"row|col"),
)


def variants(pattern: str) -> list[list[str]]:
    """Mnemonics of a row, as lists of parts: without what is optional, with each of it, with all of it, and with every
    choice."""
    opcode = re.split(r"[.\[]", pattern, maxsplit=1)[0]
    items = []
    for text in ITEM.findall(pattern[len(opcode) :]):
        choices = [choice.lstrip(".") for choice in text.strip(".[]{}").split("|")]
        items.append((text.startswith("["), choices))
    base = [(not optional, choices[0]) for optional, choices in items]
    found = [base, [(True, choices[0]) for _, choices in items]]
    for at, (_, choices) in enumerate(items):
        for choice in choices:
            found.append([*base[:at], (True, choice), *base[at + 1 :]])
    texts = [[opcode, *(part for present, part in one if present)] for one in found]
    return [list(one) for one in dict.fromkeys(map(tuple, texts))]


def shuffled(parts: list[str], rng: random.Random) -> list[str]:
    """Another order of the parts that leaves types, spaces and layouts in order among themselves."""
    mixed = rng.sample(parts, len(parts))
    for group in ORDERED:
        ordered = iter(part for part in parts if group.fullmatch(part))
        mixed = [next(ordered) if group.fullmatch(part) else part for part in mixed]
    return mixed


def asked(mnemonics: list[str], arch: str) -> dict[str, str]:
    """By mnemonic that ptxas takes: what it calls the instruction; nothing for one without operands."""
    head = f".version 9.0\n.target {arch}\n.address_size 64\n.visible .entry k() {{\n"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "orders.ptx"
        source.write_text(head + "\n".join(f"{one};" for one in mnemonics) + "\nret;\n}\n")
        ran = subprocess.run(
            ["ptxas", f"-arch={arch}", "-o", str(Path(folder) / "orders.cubin"), str(source)],
            capture_output=True,
            text=True,
            check=False,
        )
    said: dict[int, list[str]] = {}
    for line, text in ERROR.findall(ran.stderr):
        said.setdefault(int(line) - head.count("\n") - 1, []).append(text)
    taken = {}
    for at, mnemonic in enumerate(mnemonics):
        known = [KNOWN.match(text) for text in said.get(at, [])]
        if all(known):
            taken[mnemonic] = known[0][1] if known else ""
    return taken


def taken_orders(pattern: str, rng: random.Random) -> dict[str, str]:
    """Mnemonics in the order of the row, and in others, that ptxas takes; and its name of the instruction."""
    straight = {".".join(parts): parts for parts in variants(pattern)}
    taken: dict[str, str] = {}
    for arch in ARCHES:
        known = asked(list(straight), arch)
        mixed = []
        fixed = len(re.match(r"(\.?[\w:]+)*", pattern)[0].split("."))  # that every mnemonic of the row begins with
        for mnemonic, name in known.items():
            prefix = name.count(".") + 1 if name else fixed
            parts = straight[mnemonic]
            for _ in range(ORDERS):
                mixed.append(".".join([*parts[:prefix], *shuffled(parts[prefix:], rng)]))
        taken |= known | asked(list(dict.fromkeys(mixed)), arch)
    return taken


if __name__ == "__main__":
    rng = random.Random(0)
    orders: dict[str, str] = {}
    for pattern in dict.fromkeys(row[1] for row in _core.instruction_forms()):
        orders |= taken_orders(pattern, rng)
    with lzma.open(GOLDEN, "wt") as file:
        file.write("\n".join(sorted(orders)) + "\n")
    print(len(orders), "mnemonics;", "opcodes:", " ".join(sorted(set(orders.values()))))
