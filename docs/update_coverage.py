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
    lines = ["| Family | Forms |", "|---|---|"]
    for family, rows in groupby(sorted(_core.instruction_forms(), key=lambda row: row[0]), key=lambda row: row[0]):
        forms = list(dict.fromkeys(pattern for _, pattern in rows))
        for _, group in groupby(sorted(folded(forms)), key=lambda form: form.split(".")[0].split("[")[0]):
            cell = "<br>".join(f"`{form}`".replace("|", "\\|") for form in group)
            lines.append(f"| {family} | {cell} |")
    return "\n".join(lines)


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
