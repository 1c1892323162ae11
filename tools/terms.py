"""Links terms of the glossary at their first use in each notebook: python -m tools.terms

A term is what a notebook prints in bold. Its link leads to the glossary, and its title, which is shown on hover, is the
glossary's meaning.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[1]
BOLD = re.compile(r'(?<!\[)\*\*([A-Za-z][\w .-]*)\*\*|\[\*\*([\w .-]+)\*\*\]\(\.\./GLOSSARY\.md "[^"]*"\)')


def glossary() -> dict[str, str]:
    """Meanings by term, in lower case; a row may have several."""
    found = {}
    for row in re.findall(r"^\| (.+?) \| (.+) \|$", (ROOT / "GLOSSARY.md").read_text("utf-8"), re.MULTILINE):
        for term in re.split(r", | \(|\)|: ", row[0]):
            found[term.strip().lower()] = row[1]
    return found


def meaning(term: str, known: dict[str, str]) -> str | None:
    """Of a term as it stands in a sentence, singular or plural."""
    low = term.lower()
    return known.get(low) or known.get(low.removesuffix("s")) or known.get(low.removesuffix("es"))


def linked(texts: list[str], known: dict[str, str]) -> list[str]:
    """The texts of a notebook with its terms linked, each where it comes first."""
    seen: set[str] = set()

    def replace(match: re.Match[str]) -> str:
        term = match[1] or match[2]
        told = meaning(term, known)
        if told is None or told in seen:
            return f"**{term}**"
        seen.add(told)
        title = told.replace("`", "").replace('"', "'").replace("|", "/")
        return f'[**{term}**](../GLOSSARY.md "{title}")'

    return [BOLD.sub(replace, text) for text in texts]


def main() -> None:
    known = glossary()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        cells = [cell for cell in notebook.cells if cell.cell_type == "markdown"]
        texts = linked([cell.source for cell in cells], known)
        if texts != [cell.source for cell in cells]:
            for cell, text in zip(cells, texts, strict=True):
                cell.source = text
            nbformat.write(notebook, path)
            print(path.name, sum("GLOSSARY.md " in text for text in texts))


if __name__ == "__main__":
    main()
