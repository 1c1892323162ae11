"""What a guided search begins with, and the words that its mutator draws from."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

from sglab_fuzz import operand_templates as operands
from sglab_fuzz import ptx_text

MOST_LETTERS = 4096
"""Longest input: all statements that a row takes fit, and thousands of inputs a second run."""
MODULES = 300
"""Modules of the generator among the seeds."""


def statements() -> list[str]:
    """Statements that the decoder takes, of every row of the table that has some."""
    return [f"{mnemonic} {operands.written(kinds)};" for row in operands.table() for mnemonic, kinds in row]


def texts() -> list[str]:
    """Modules: one with the statements of each row, as many as fit, some of the generator, and what ships."""
    rng = random.Random(0)
    found = []
    before, after = f"{operands.HEADER}{operands.DECLARATIONS}{operands.TARGETS}", "LABEL: E0: ret;\n}\n"
    for row in operands.table():
        text = before
        for mnemonic, kinds in row:
            statement = f"{mnemonic} {operands.written(kinds, rng)};\n"
            if len((text + statement + after).encode()) <= MOST_LETTERS:
                text += statement
        found.append(text + after)
    found += [ptx_text.module(rng) for _ in range(MODULES)]
    found += [text[:MOST_LETTERS] for text in ptx_text.corpus()]
    return [text for text in found if len(text.encode()) <= MOST_LETTERS]


def words() -> list[str]:
    """Operands, numbers, types, directives, punctuation, and the modifiers of the table."""
    modifiers = {f".{part}" for row in operands.table() for mnemonic, _ in row for part in mnemonic.split(".")[1:]}
    types = [f".{name}" for name in ptx_text.SCALARS]
    fixed = [*ptx_text.OPERANDS, *ptx_text.EXTREMES, *types, *ptx_text.DIRECTIVES, *",;:{}[]()@!|<>=-+/*\"\\'", "/*"]
    addresses = [*operands.ADDRESSES.values(), "[%d11, {%r1, %r2}]", "LABEL", "mb", "fn", "out"]
    return [*dict.fromkeys([*fixed, *addresses, *sorted(modifiers)])]


def lines() -> list[str]:
    """Declarations and directives of the generator, and lines of shipped PTX."""
    rng = random.Random(1)
    spaces = (".global", ".const", ".shared", ".local", ".param", ".reg")
    made = [ptx_text.variable(rng, spaces, f"v{k % 7}") for k in range(600)]
    made += [*ptx_text.STATEMENTS, *ptx_text.DIRECTIVES, *ptx_text.HEADER.splitlines()]
    made += [".extern .func (.param .b32 r) printf(.param .b64 f, .param .b64 a);", operands.TARGETS.strip()]
    made += [f".visible .entry e{k}({ptx_text.parameters(rng)}) {{ ret; }}" for k in range(60)]
    return [line for line in [*made, *ptx_text.corpus_statements()] if line and "\n" not in line]


def write(folder: Path) -> tuple[Path, Path]:
    """Write both.

    Returns:
        The folder of seeds, a file each, and the folder of words.
    """
    corpus, lists = folder / "seeds", folder / "words"
    corpus.mkdir(parents=True, exist_ok=True)
    lists.mkdir(exist_ok=True)
    for text in texts():
        data = text.encode()
        (corpus / hashlib.blake2b(data, digest_size=8).hexdigest()).write_bytes(data)
    for name, entries in (("statements", statements()), ("lines", lines()), ("words", words())):
        (lists / f"{name}.txt").write_text("".join(f"{entry}\n" for entry in entries))
    return corpus, lists
