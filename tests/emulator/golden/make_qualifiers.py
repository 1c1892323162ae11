"""Asks ptxas which qualifiers it takes beside those that the emulator's table knows.

    python -m tests.emulator.golden.make_qualifiers

Every instruction of the conformance cases and of the corpus, with its operands, is tried with each word of the table
added, with one of its own left out, and with another word of its opcode in place of one of its own. Writes
qualifiers.txt.xz beside this file: one mnemonic per line that ptxas takes for sm_90a or sm_100a.
"""

from __future__ import annotations

import lzma
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sglab import _core
from tests.emulator.golden.make_modifier_orders import ARCHES, ITEM
from tests.support import corpus
from tests.support.conformance import compare, convert, floating, integer

GOLDEN = Path(__file__).parent / "qualifiers.txt.xz"
MORE = "v2 v4 v8 rna ftz sat satfinite relu NaN xorsign abs volatile weak relaxed acquire release acq_rel sc mmio nc cc"
STATEMENT = re.compile(r"^[ \t]*(?:@!?%?\w+[ \t]+)?([a-z]\w*(?:\.[\w:]+)+)[ \t]+([^;{]*(?:\{[^;]*)?);", re.M)
# Words that ptxas takes with any instruction that has operands, and that change nothing.
IGNORED = {
    "acc::f16",
    "acc::f32",
    "b4x16_p64",
    "b6x16_p32",
    "b8x16",
    "box_dim",
    "element_stride",
    "elemtype",
    "fill_mode",
    "finite",
    "global_address",
    "global_dim",
    "global_stride",
    "infinite",
    "interleave_layout",
    "normal",
    "notanumber",
    "number",
    "rank",
    "subnormal",
    "swizzle_atomicity",
    "swizzle_mode",
}
JUMPS = {"bra", "call", "ret", "brx"}
ERROR = re.compile(r"line (\d+); error")
Statements = dict[str, tuple[int, int]]  # of a module, by mnemonic: where it begins and ends


def vocabulary() -> dict[str, list[str]]:
    """Words that qualify instructions, by opcode; those of all under ""."""
    words = {"": set(MORE.split())}
    for pattern in {row[1] for row in _core.instruction_forms()}:
        opcode = re.split(r"[.\[]", pattern, maxsplit=1)[0]
        for item in ITEM.findall(pattern[len(opcode) :]):
            own = {choice.lstrip(".") for choice in item.strip(".[]{}").split("|")} - IGNORED
            for key in ("", opcode):
                words.setdefault(key, set()).update(word for word in own if re.fullmatch(r"[A-Za-z][\w:]*", word))
    return {opcode: sorted(own) for opcode, own in words.items()}


def modules() -> Iterator[str]:
    for family in (integer, floating, convert, compare):
        yield from (case.ptx() for case in family.cases())
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


def variants(mnemonic: str, words: dict[str, list[str]]) -> list[str]:
    """Those that the table does not know."""
    parts = mnemonic.split(".")
    tried = {".".join(parts[:at] + parts[at + 1 :]) for at in range(1, len(parts))}
    tried.update(f"{mnemonic}.{word}" for word in words[""])
    for word in words.get(parts[0], []):
        tried.update(".".join([*parts[:at], word, *parts[at + 1 :]]) for at in range(1, len(parts)))
    return sorted(one for one in tried if _core.instruction_effects(one) is None)


def complaints(text: str, arch: str) -> set[int] | None:
    """Lines that ptxas complains of; None if it did not read to the end, which some text makes it do without a word."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "module.ptx"
        source.write_text(text)
        command = ["ptxas", "-O0", f"-arch={arch}", "-o", str(Path(folder) / "module.cubin"), str(source)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if "syntax error" in ran.stderr or (ran.returncode and "aborted due to errors" not in ran.stderr):
        return None
    return {int(line) for line in ERROR.findall(ran.stderr)}


def for_arch(text: str, arch: str) -> str:
    text = re.sub(r"\.version\s+[\d.]+", ".version 9.0", text, count=1)
    return re.sub(r"(\.target)\s+\w+", rf"\1 {arch}", text, count=1)


def taken(before: str, after: str, operands: str, tried: list[str], arch: str) -> set[str]:
    """Those of the mnemonics that ptxas takes with these operands between two halves of a module."""
    if not tried:
        return set()
    first = before.count("\n") + 2
    bad = complaints("\n".join([before, *(f"{one} {operands}" for one in tried), after]), arch)
    if bad is not None:
        return {one for line, one in enumerate(tried, first) if line not in bad}
    if len(tried) == 1:
        return set()
    half = len(tried) // 2
    return taken(before, after, operands, tried[:half], arch) | taken(before, after, operands, tried[half:], arch)


if __name__ == "__main__":
    words, orders = vocabulary(), set()
    for text, found in statements():
        for arch in ARCHES:
            whole = for_arch(text, arch)
            if complaints(whole, arch) != set():
                continue  # a module of the other architecture
            for match in STATEMENT.finditer(whole):
                if match[1] in found and match.start(1) - found[match[1]][0] == len(whole) - len(text):
                    before, after = whole[: match.end()], whole[match.end() :]
                    operands = " ".join(whole[match.end(1) : match.end()].split())
                    orders |= taken(before, after, operands, variants(match[1], words), arch)
    with lzma.open(GOLDEN, "wt") as file:
        file.write("\n".join(sorted(orders)) + "\n")
    print(len(orders), "mnemonics")
