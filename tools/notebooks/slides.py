"""Slides of a notebook: one HTML page that needs no network, cut from the same cells.

A heading begins a slide; what does not fit goes on to the next one, under the same heading. A cell's metadata
(`slideshow.slide_type`: slide, subslide, fragment, skip, notes, as nbconvert and RISE have them) overrules that. A page
shrinks what is a little too large.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat

from .formulas import with_math

HERE = Path(__file__).resolve().parent
ROOM = 18.5
"""Lines of text that fit a slide."""
TEXT_WIDTH, CODE_LINE, IMAGE, TABLE_ROW = 92, 0.72, 8.0, 1.25
HEADING = re.compile(r"#{1,6} ")
LIST_ITEM = re.compile(r"[-*] |\d+\. ")
ASKS = re.compile(r"\*\*(Question|Exercise)\b")
LINK = re.compile(r'\]\([^)"]*(?:"[^"]*")?\)|<[^>]+>')


@dataclass
class Slide:
    """What is shown at once. title: the heading that it belongs to; cells: with sources cut to what fits"""

    title: str
    cells: list[Any] = field(default_factory=list)
    lines: float = 0.0

    def add(self, cell: Any, lines: float) -> None:
        """Appends a cell; Markdown that follows Markdown of the same cell joins it."""
        last = self.cells[-1] if self.cells else None
        if last is not None and cell.cell_type == last.cell_type == "markdown" and cell.id == last.id:
            last.source += f"\n\n{cell.source}"
        else:
            self.cells.append(nbformat.from_dict(cell))
        self.lines += lines


def blocks(source: str) -> list[str]:
    """Markdown in paragraphs, lists, tables, fenced code and <details>, which stay whole; headings stand alone."""
    found: list[list[str]] = [[]]
    fenced = folded = False
    for line in source.splitlines():
        alone = not (fenced or folded) and HEADING.match(line) is not None
        if alone or (not line.strip() and not (fenced or folded)):
            found += [[line], []] if alone else [[]]
            continue
        fenced ^= line.lstrip().startswith("```")
        folded = (folded or "<details" in line) and "</details>" not in line
        found[-1].append(line)
    return ["\n".join(lines) for lines in found if lines]


def height(block: str) -> float:
    """Lines of text that a block of Markdown takes on a slide, about."""
    if block.startswith("<details"):
        return 1.3 * max(block.count("<summary>"), 1)
    if HEADING.match(block):
        return 1.8
    lines = block.splitlines()
    if block.startswith("```"):
        return CODE_LINE * len(lines) + 0.5
    if block.startswith("|"):
        return sum(TABLE_ROW * _wrapped(line, 110) for line in lines[:1] + lines[2:])
    images = block.count("](attachment:")
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)", "", block).strip()
    items = re.split(r"\n(?=[-*>] |\d+\. )", text) if text else []
    return IMAGE * images + sum(_wrapped(item) for item in items) + 0.5


def parted(lines: list[str], each: float, begins: Callable[[str, str], bool]) -> list[list[str]]:
    """Lines in pieces that fit a slide; one that is too long is divided where something begins.

    Args:
        each: height of a line.
        begins: of a line and the one before it, whether a piece may begin with it.
    """
    most = int((ROOM - 1) / each)
    if len(lines) <= 1.3 * most:  # the text shrinks a little
        return [lines]
    middle = len(lines) // 2
    starts = [i for i in range(1, len(lines)) if begins(lines[i - 1], lines[i])]
    if not starts:
        return [lines]
    at = min(starts, key=lambda i: abs(i - middle))
    return parted(lines[:at], each, begins) + parted(lines[at:], each, begins)


def _begins_code(before: str, line: str) -> bool:
    return not before.strip() and bool(line.strip())


def _shorter(block: str) -> list[str]:
    """A long list in pieces; every other block whole."""
    if not LIST_ITEM.match(block):
        return [block]
    pieces = parted(block.splitlines(), 1.0, lambda _, line: LIST_ITEM.match(line) is not None)
    return ["\n".join(piece) for piece in pieces]


def _wrapped(text: str, width: int = TEXT_WIDTH) -> int:
    return -(-len(LINK.sub("]", text)) // width)


@dataclass
class Piece:
    """What is not divided any more. fresh: begins a slide; kept: stays with what is before it, if both fit one."""

    cell: Any
    lines: float
    fresh: bool = False
    kept: bool = False

    @property
    def heading(self) -> str:
        found = self.cell.cell_type == "markdown" and HEADING.match(self.cell.source)
        return self.cell.source.lstrip("# ").strip() if found else ""


def pieces(notebook: Any) -> list[Piece]:
    """The notebook's paragraphs and cells, in order. A question stays with the cell that answers it, a sentence that
    ends in a colon with what it announces, hints with what they are about."""
    found: list[Piece] = []
    asking = announced = False
    for cell in notebook.cells:
        kind = cell.metadata.get("slideshow", {}).get("slide_type", "-")
        if kind in ("skip", "notes") or not cell.source.strip():
            continue
        fresh = kind in ("slide", "subslide")
        if cell.cell_type != "markdown":
            parts = parted(cell.source.splitlines(), CODE_LINE, _begins_code)
            for number, part in enumerate(parts, 1):
                last = number == len(parts)
                lines = CODE_LINE * len(part) + 1 + 3 * bool(last and cell.get("outputs"))
                code = {**cell, "source": "\n".join(part)} | ({} if last else {"outputs": []})
                found.append(Piece(nbformat.from_dict(code), lines, fresh or number > 1, asking or announced))
            asking = announced = False
            continue
        for block in [each for whole in blocks(cell.source) for each in _shorter(whole)]:
            kept = asking or announced or block.startswith("<details")
            found.append(Piece(nbformat.from_dict({**cell, "source": block}), height(block), fresh, kept))
            asking = (asking or ASKS.match(block) is not None) and not HEADING.match(block)
            announced = block.rstrip().endswith(":")
            fresh = False
    return found


def cut(notebook: Any) -> list[Slide]:
    """The notebook's slides, in order."""
    slides: list[Slide] = []
    title = ""
    all_pieces = pieces(notebook)
    for i, piece in enumerate(all_pieces):
        fresh = piece.fresh
        if piece.heading:
            title = piece.heading
            fresh = fresh or not slides or not _is_heading_alone(slides[-1])
            if not fresh:
                slides[-1].title = title
        together = piece.lines
        for following in () if piece.kept else all_pieces[i + 1 :]:
            if not following.kept or following.fresh:
                break
            together += following.lines
        needed = together if together <= ROOM else piece.lines
        if not slides or fresh or (slides[-1].lines + needed > ROOM and slides[-1].lines):
            slides.append(Slide(title))
        slides[-1].add(piece.cell, piece.lines)
    return slides


def _is_heading_alone(slide: Slide) -> bool:
    """Whether nothing but headings stands on a slide yet."""
    return all(
        cell.cell_type == "markdown" and all(HEADING.match(block) for block in blocks(cell.source))
        for cell in slide.cells
    )


def deck(path: Path, run: bool = False) -> str:
    """The page of a notebook's slides.

    Args:
        run: run the notebook first; its outputs are shown, widgets excepted, which need their kernel.
    """
    from nbconvert import HTMLExporter
    from pygments.formatters import HtmlFormatter

    notebook = nbformat.read(path, as_version=4)
    if run:
        from nbclient import NotebookClient

        NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": str(path.parent)}}).execute()
    slides = cut(notebook)
    exporter = HTMLExporter(
        template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True, exclude_anchor_links=True
    )
    parts = []
    for slide in slides:
        for cell in slide.cells:
            if cell.cell_type == "markdown":
                cell.source = with_math(cell.source)
    for number, slide in enumerate(slides, start=1):
        page = nbformat.v4.new_notebook(cells=slide.cells, metadata=notebook.metadata)
        body = exporter.from_notebook_node(page)[0]
        starts = slide.cells[0].cell_type == "markdown" and HEADING.match(slide.cells[0].source)
        running = "" if starts else f"<header>{html.escape(re.sub(r'[*`]', '', slide.title))}</header>"
        parts.append(
            f'<section class="slide" id="slide-{number}" aria-label="Slide {number} of {len(slides)}">{running}'
            f'<div class="body">{body}</div><footer>{number} / {len(slides)}</footer></section>'
        )
    colours = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    wrapped = f"{colours}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"
    template = (HERE / "deck.html").read_text("utf-8")
    title = next((slide.title for slide in slides if slide.title), path.stem)
    for mark, text in (("TITLE", html.escape(title)), ("COLOURS", wrapped), ("SLIDES", "\n".join(parts))):
        template = template.replace(f"<!-- {mark} -->", text)
    return template
