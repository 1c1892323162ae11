"""Slides: every word of a notebook is on one of them, headings begin them, metadata overrules, formulas are MathML."""

from pathlib import Path

import nbformat
import pytest

pytest.importorskip("nbconvert")

from tools.notebooks import slides
from tools.notebooks.formulas import mathml, with_math

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def _words(text: str) -> list[str]:
    return text.split()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_nothing_of_a_notebook_is_lost_or_shown_twice(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    made = slides.cut(notebook)
    shown = [word for slide in made for cell in slide.cells for word in _words(cell.source)]
    assert shown == [word for cell in notebook.cells for word in _words(cell.source)]
    assert all(slide.cells and slide.title for slide in made)


def _notebook(*cells: tuple[str, str, str]) -> nbformat.NotebookNode:
    made = []
    for kind, source, slide_type in cells:
        cell = nbformat.v4.new_markdown_cell(source) if kind == "m" else nbformat.v4.new_code_cell(source)
        if slide_type:
            cell.metadata.slideshow = {"slide_type": slide_type}
        made.append(cell)
    return nbformat.v4.new_notebook(cells=made)


def test_headings_begin_slides_and_what_is_too_long_goes_on() -> None:
    long = "\n\n".join(f"Paragraph {i} " + "word " * 60 for i in range(8))
    made = slides.cut(_notebook(("m", f"# One\n\n## Two\n\n{long}\n\n## Three\n\nend", ""), ("c", "x = 1", "")))
    assert [slide.title for slide in made] == ["Two"] * (len(made) - 1) + ["Three"] and len(made) > 2
    assert made[0].cells[0].source.startswith("# One\n\n## Two\n\nParagraph 0")
    assert made[-1].cells[-1].source == "x = 1"
    assert all(slide.lines <= slides.ROOM for slide in made)


def test_metadata_overrules() -> None:
    cells = (
        ("m", "# One", ""),
        ("c", "a", "slide"),
        ("c", "b", "skip"),
        ("m", "say this", "notes"),
        ("c", "c", "fragment"),
    )
    made = slides.cut(_notebook(*cells))
    assert [[cell.source for cell in slide.cells] for slide in made] == [["# One"], ["a", "c"]]


def test_blocks_stay_whole() -> None:
    source = "a\nb\n\n```\n# no heading\n\ncode\n```\n\n"
    source += "<details><summary>Hint</summary>\n\n# x\n\ny\n\n</details>\n\n# H\nend"
    assert slides.blocks(source) == [
        "a\nb",
        "```\n# no heading\n\ncode\n```",
        "<details><summary>Hint</summary>\n\n# x\n\ny\n\n</details>",
        "# H",
        "end",
    ]


def test_formulas() -> None:
    assert mathml(r"1/\sqrt{d}") == "<math><mn>1</mn><mo>/</mo><msqrt><mrow><mi>d</mi></mrow></msqrt></math>"
    assert "<msubsup><mi>x</mi><mrow><mn>1</mn></mrow><mrow><mn>2</mn></mrow></msubsup>" in mathml("x_1^2")
    assert (
        "<mo>′</mo>" in mathml("m'")
        and "<mfrac>" in mathml(r"\frac{a}{b}")
        and "softmax" in mathml(r"\mathrm{softmax}(s)")
    )
    assert "a of b" in mathml(r"e^{\text{a of b}}") and "<mi>α</mi>" in mathml(r"\alpha")
    assert with_math("`$x$` and $0.09 | $0.12") == "`$x$` and $0.09 | $0.12"
    assert 'display="block"' in with_math("$$a\n= b$$")
    assert mathml("a } b") == "<math><mi>a</mi><mi>b</mi></math>"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_formula_of_the_course_has_a_macro_that_is_unknown(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            made = with_math(cell.source)
            for math in made.split("<math")[1:]:
                inside = math.partition("</math>")[0]
                names = set(inside.split('mathvariant="normal">')[1:])
                known = {"log", "ln", "exp", "max", "min"}
                assert {name.partition("<")[0] for name in names} <= known and "\\" not in inside, inside


def test_a_question_stays_with_its_cell_hints_with_theirs_and_a_colon_with_what_it_announces() -> None:
    new = nbformat.v4
    long = "\n\n".join(["A paragraph that takes a line."] * 11)
    asked = [new.new_markdown_cell(f"# Title\n\n{long}\n\n**Question 1.** What?"), new.new_code_cell("answer = ...")]
    hints = [new.new_markdown_cell("<details><summary>Hint 1</summary>Think.</details>")]
    told = [new.new_markdown_cell(f"# Next\n\n{long}\n\nHere it is:"), new.new_code_cell("\n".join("abcdef"))]
    made = slides.cut(new.new_notebook(cells=[*asked, *hints, *told]))
    sources = [[cell.source for cell in slide.cells] for slide in made]
    assert sources[1] == ["**Question 1.** What?", "answer = ...", hints[0].source]
    assert sources[3] == ["Here it is:", told[1].source]
    assert len(made) == 4


def test_what_stays_together_and_does_not_fit_is_divided() -> None:
    new = nbformat.v4
    code = "\n".join(f"line_{i}" for i in range(24))
    cells = [
        new.new_markdown_cell("# Title\n\n**Question 1.** What?"),
        new.new_code_cell(code),
        new.new_code_cell(code),
    ]
    assert [len(slide.cells) for slide in slides.cut(new.new_notebook(cells=cells))] == [1, 1, 1]
