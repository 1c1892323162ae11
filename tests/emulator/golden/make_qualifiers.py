"""Asks ptxas which qualifiers it takes beside those that the emulator's table knows.

    python -m tests.emulator.golden.make_qualifiers

Every instruction of the conformance cases and of the corpus, with its operands, is tried with each word of the table
added, in place of one of its own, and with one of its own left out. Writes qualifiers.txt.xz beside this file: one
mnemonic per line that ptxas takes for sm_90a or sm_100a.
"""

from __future__ import annotations

import lzma
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from sglab import _core
from tests.emulator.golden.make_modifier_orders import ARCHES, ITEM
from tests.emulator.test_assembles import CASES
from tests.support import corpus

GOLDEN = Path(__file__).parent / "qualifiers.txt.xz"
MORE = "v2 v4 v8 rna ftz sat satfinite relu NaN xorsign abs volatile weak relaxed acquire release acq_rel sc mmio nc cc"
STATEMENT = re.compile(r"^[ \t]*(?:@!?%?\w+[ \t]+)?([a-z]\w*(?:\.[\w:]+)+)[ \t]+([^;{]*(?:\{[^;]*)?);", re.M)
JUMPS = {"bra", "call", "ret", "brx"}
ERROR = re.compile(r"line (\d+); (error|fatal)")
Statements = dict[str, tuple[int, int]]  # of a module, by mnemonic: where it begins and ends


def vocabulary() -> list[str]:
    """Words that qualify some instruction."""
    words = set(MORE.split())
    for pattern in {row[1] for row in _core.instruction_forms()}:
        opcode = re.split(r"[.\[]", pattern, maxsplit=1)[0]
        for item in ITEM.findall(pattern[len(opcode) :]):
            words.update(choice.lstrip(".") for choice in item.strip(".[]{}").split("|"))
    return sorted(word for word in words if re.fullmatch(r"[A-Za-z][\w:]*", word))


def modules() -> Iterator[str]:
    yield from (case.ptx() for case in CASES)
    for path in sorted((Path(corpus.__file__).parent / "ptx").glob("*.ptx.xz")):
        yield lzma.decompress(path.read_bytes()).decode()


def statements() -> Iterator[tuple[str, Statements]]:
    """Modules, each with the instructions that none before it had."""
    seen: set[str] = set()
    for text in modules():
        found: Statements = {}
        for match in STATEMENT.finditer(text):
            if match[1] not in seen and match[1].split(".")[0] not in JUMPS:
                seen.add(match[1])
                found[match[1]] = match.start(1), match.end()
        if found:
            yield text, found


def variants(mnemonic: str, words: Iterable[str]) -> list[str]:
    """Those that the table does not know."""
    parts = mnemonic.split(".")
    tried = {".".join(parts[:at] + parts[at + 1 :]) for at in range(1, len(parts))}
    for word in words:
        tried.add(f"{mnemonic}.{word}")
        tried.update(".".join([*parts[:at], word, *parts[at + 1 :]]) for at in range(1, len(parts)))
    return sorted(one for one in tried if _core.instruction_effects(one) is None)


def complaints(text: str, arch: str) -> tuple[set[int], int]:
    """Lines that ptxas complains of, and the one at which it could not read on, or 0."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "module.ptx"
        source.write_text(text)
        command = ["ptxas", "-O0", f"-arch={arch}", "-o", str(Path(folder) / "module.cubin"), str(source)]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    lines, end = set(), 0
    for line, kind in ERROR.findall(said):
        lines.add(int(line))
        end = int(line) if kind == "fatal" else end
    return lines, end


def taken(text: str, found: Statements, words: list[str], arch: str) -> set[str]:
    """The variants of a module's instructions that ptxas takes; each stands in a line after the instruction."""
    text = re.sub(r"\.version\s+[\d.]+", ".version 9.0", text, count=1)
    text = re.sub(r"(\.target)\s+\w+", rf"\1 {arch}", text, count=1)
    if complaints(text, arch)[0]:
        return set()
    lines: list[str] = []
    tried: dict[int, str] = {}
    last = 0
    for match in STATEMENT.finditer(text):
        mnemonic = match[1]
        if mnemonic not in found:
            continue
        found.pop(mnemonic)
        lines += text[last : match.end()].split("\n")
        last = match.end()
        operands = " ".join(text[match.end(1) : last].split())
        for one in variants(mnemonic, words):
            lines.append(f"{one} {operands}")
            tried[len(lines)] = one
    lines += text[last:].split("\n")
    while True:
        bad, end = complaints("\n".join(lines), arch)
        if not end:
            return {one for line, one in tried.items() if line not in bad}
        at = max(line for line in tried if line <= end)
        tried.pop(at)
        lines[at - 1] = ""


if __name__ == "__main__":
    words, orders = vocabulary(), set()
    for text, found in statements():
        for arch in ARCHES:
            orders |= taken(text, dict(found), words, arch)
    with lzma.open(GOLDEN, "wt") as file:
        file.write("\n".join(sorted(orders)) + "\n")
    print(len(orders), "mnemonics")
