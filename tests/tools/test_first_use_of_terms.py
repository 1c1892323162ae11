"""Who reads the course in order finds every word of the glossary explained where it first stands."""

import re
from pathlib import Path

import nbformat

from tools.terms import glossary, meaning

FOLDER = Path(__file__).parents[2] / "notebooks"
COURSE = sorted(path.stem for path in FOLDER.glob("[0-9][0-9]_*.ipynb"))
EVERYDAY = {
    *("word", "tensor", "data", "work", "position", "scale", "state", "box", "merge", "window"),
    *("tree", "root", "stage", "overlap", "session", "moment", "record", "recording", "role", "tool", "clock", "graph"),
}
"""Words whose use there is the everyday one, or that PyTorch has taught, or that the text itself explains."""
LINK = re.compile(r'\[\*\*([^*]*)\*\*\]\(\.\./GLOSSARY\.md "[^"]*"\)')


def prose(stem: str) -> str:
    """What is read as sentences: no code, formulas, tables, headings, figures; nor what comes after the summary."""
    cells = nbformat.read(FOLDER / f"{stem}.ipynb", as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown").partition(
        "\n## What you have seen"
    )[0]
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`|\$[^$]*\$|!\[[^\]]*\]\([^)]*\)|^\|.*\|$|^#+ .*$|^\(Source.*$", "", text, flags=re.MULTILINE)
    return re.sub(r"\]\([^)]*\)", "]", LINK.sub(r"<<\1>>", text))


def test_a_term_is_linked_where_it_first_stands() -> None:
    known = glossary()
    text = "\n".join(prose(stem) for stem in COURSE)
    linked: dict[str, int] = {}
    for found in re.finditer(r"<<([^>]*)>>", text):
        linked.setdefault(meaning(found[1], known) or "", found.start())
    assert len(linked) > 110
    unlinked = re.sub("<<[^>]*>>", lambda found: " " * len(found[0]), text)
    late = []
    for term, told in known.items():
        first = re.search(rf"\b{re.escape(term)}(s|es)?\b", unlinked, re.IGNORECASE)
        if term and first and term not in EVERYDAY and not linked.get(told, len(text)) <= first.start():
            late.append((term, text[max(0, first.start() - 40) : first.end() + 20]))
    assert not late
