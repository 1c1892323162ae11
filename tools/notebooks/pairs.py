"""A text beside each notebook, for review: Markdown as jupytext writes it, without what nobody reads in a diff.

Figures are attachments of cells, megabytes of base64, and are left out, as are cells' ids; figures are reviewed as the
code that draws them (tools/figures). A text that was edited can be taken into its notebook, which keeps both.
"""

from __future__ import annotations

from copy import deepcopy
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import nbformat

FORMAT = "md"
HEADER = {"jupytext": {"notebook_metadata_filter": "-all", "cell_metadata_filter": "slideshow,tags"}}


def text_path(notebook: Path) -> Path:
    """Where a notebook's text lies."""
    return notebook.parent / "text" / f"{notebook.stem}.md"


def text_of(notebook: Any) -> str:
    """The text of a notebook (nbformat's)."""
    import jupytext

    plain = deepcopy(notebook)
    for cell in plain.cells:
        cell.pop("attachments", None)
        cell.pop("id", None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    plain.metadata = nbformat.from_dict({**plain.metadata, **HEADER})
    text: str = jupytext.writes(plain, FORMAT)
    return text


def write(path: Path) -> None:
    """Writes a notebook's text."""
    text = text_path(path)
    text.parent.mkdir(exist_ok=True)
    text.write_text(text_of(nbformat.read(path, as_version=4)), "utf-8")


def agree(path: Path) -> bool:
    """Whether a notebook's text is there and says what the notebook says."""
    text = text_path(path)
    return text.exists() and text.read_text("utf-8") == text_of(nbformat.read(path, as_version=4))


def without_notebook(folder: Path) -> list[Path]:
    """Texts whose notebooks are gone."""
    return [text for text in sorted((folder / "text").glob("*.md")) if not (folder / f"{text.stem}.ipynb").exists()]


def take(path: Path) -> bool:
    """Takes an edited text into its notebook; cells that stay keep their ids, attachments and metadata.

    The text is written once more, as `sync` would.

    Returns:
        Whether the notebook changed.

    Raises:
        FileNotFoundError: there is no text; `sync` writes it.
    """
    import jupytext

    text = text_path(path)
    if not text.exists():
        raise FileNotFoundError(f"{text}: no such text; python -m tools.notebooks sync {path.stem} writes it")
    notebook = nbformat.read(path, as_version=4)
    if agree(path):
        return False
    fresh = jupytext.reads(text.read_text("utf-8"), FORMAT).cells
    notebook.cells = joined(notebook.cells, fresh)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)
    write(path)
    return True


def joined(old: list[Any], new: list[Any]) -> list[Any]:
    """The new cells' kinds and sources on the old cells: same sources first, then what was edited in place."""
    before = [(cell.cell_type, cell.source) for cell in old]
    after = [(cell.cell_type, cell.source) for cell in new]
    cells: list[Any] = []
    for what, first, last, start, end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        pairs_of = zip(old[first:last], new[start:end], strict=False) if what in ("equal", "replace") else ()
        kept = 0
        for mine, theirs in pairs_of:
            if mine.cell_type != theirs.cell_type:
                break
            mine.source = theirs.source
            if "attachments" in mine:
                mine.attachments = {
                    name: data for name, data in mine.attachments.items() if f"attachment:{name}" in mine.source
                }
                if not mine.attachments:
                    del mine["attachments"]
            cells.append(mine)
            kept += 1
        cells += new[start + kept : end]
    return cells
