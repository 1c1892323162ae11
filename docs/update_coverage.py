"""Rewrites the instruction table in docs/emulator/instructions.md from the emulator's own strict table.

python docs/update_coverage.py            # --check: only say whether it is up to date
"""

import sys
from itertools import groupby
from pathlib import Path

from sglab import _core

PAGE = Path(__file__).parent / "emulator" / "instructions.md"
BEGIN, END = "<!-- coverage: begin -->", "<!-- coverage: end -->"
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
COMPARISONS += ["lo", "ls", "hi", "hs"]


def table() -> str:
    """One row per opcode and family: its forms in the table's own notation, types folded together."""
    lines = ["| Family | Forms | Effects |", "|---|---|---|"]
    for family, rows in groupby(sorted(_core.instruction_forms(), key=lambda row: row[0]), key=lambda row: row[0]):
        by_effects: dict[str, list[str]] = {}
        for _, pattern, effects in rows:
            by_effects.setdefault(described(effects), []).append(pattern)
        cells = [
            (opcode, "<br>".join(f"`{form}`".replace("|", "\\|") for form in group), effects)
            for effects, forms in by_effects.items()
            for opcode, group in groupby(
                sorted(folded(list(dict.fromkeys(forms)))), key=lambda form: form.split(".")[0].split("[")[0]
            )
        ]
        lines += [f"| {family} | {cell} | {effects} |" for _, cell, effects in sorted(cells)]
    return "\n".join(lines)


def described(effects: _core.Effects) -> str:
    """What a row does besides filling its registers: nothing for arithmetic."""
    if effects.act == "access":
        return {(True, False): "load", (False, True): "store"}.get(
            (effects.reads, effects.writes), "atomic" if effects.returns else "reduction"
        )
    if effects.event == "copy":
        to, source = effects.space, effects.source or "registers"
        return f"{'reduction' if effects.atomic else 'copy'} to {to} from {source}"
    return ", ".join(dict.fromkeys(filter(None, (effects.event, effects.act))))


def folded(forms: list[str]) -> list[str]:
    """Forms that differ in one place only are joined: first comparisons, then the type at the end."""
    merged: dict[tuple[str, str], list[str]] = {}
    for form in forms:
        head, _, rest = form.partition(".")
        word = rest.split(".")[0].split("[")[0]
        if head in ("setp", "set") and word in COMPARISONS:
            merged.setdefault((f"{head}.", rest[len(word) :]), []).append(word)
        else:
            merged.setdefault((form, ""), [])
    joined = [
        before + ("{" + "|".join(words) + "}" + after if words else "") for (before, after), words in merged.items()
    ]
    ends: dict[str, list[str]] = {}
    for form in joined:
        stem, _, last = form.rpartition(".")
        single = last.isalnum() and "[" not in last
        ends.setdefault(stem if single else form, []).extend([last] if single else [])
    return [
        stem + (f".{{{'|'.join(dict.fromkeys(last))}}}" if len(last) > 1 else f".{last[0]}" if last else "")
        for stem, last in ends.items()
    ]


def page() -> str:
    """The page with a fresh table."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    fresh = page()
    if "--check" in sys.argv and fresh != PAGE.read_text():
        sys.exit("docs/emulator/instructions.md is out of date: run python docs/update_coverage.py")
    PAGE.write_text(fresh)
