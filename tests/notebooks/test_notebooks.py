"""Every notebook runs top to bottom as it is shipped: without outputs, without answers, without errors."""

import ast
import re
from itertools import pairwise
from pathlib import Path
from typing import TypeGuard

import nbformat
import pytest
from nbclient import NotebookClient

from tests.support.notebook_kernels import forked_kernels
from tools.notebooks.minutes import parts

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def named(path: Path) -> str:
    return path.stem


def test_the_course_is_numbered_and_every_notebook_says_what_it_is_about() -> None:
    numbers = [path.stem.partition("_")[0] for path in NOTEBOOKS if path.stem != "gallery"]
    assert numbers and all(re.fullmatch(r"\d\d", number) for number in numbers)
    assert len(set(numbers)) == len(numbers)
    for path in NOTEBOOKS:
        first = nbformat.read(path, as_version=4).cells[0]
        assert first.cell_type == "markdown" and first.source.startswith("# "), path.name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_is_shipped_without_outputs_or_answers(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, cell.source
            assert ".check(" not in cell.source or "answer = ..." in cell.source, cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_links_lead_somewhere_and_figures_are_attached_and_drawn_here(path: Path) -> None:
    drawn = "".join(file.read_text() for file in (NOTEBOOKS[0].parents[1] / "tools" / "figures").glob("*.py"))
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type != "markdown":
            continue
        for link in re.findall(r"\]\((?!https?:|attachment:)([^)#\s]+)", cell.source):
            assert (path.parent / link).exists(), link
        for link, place in re.findall(r"\]\((?!https?:)([^)#\s]*\.ipynb|)#([^)\s]+)", cell.source):
            assert _is_there(path.parent / link if link else path, place), f"{link}#{place}"
        shown = set(re.findall(r"\]\(attachment:([^)]+)\)", cell.source))
        assert shown == set(cell.get("attachments", {})), path.name
        assert all(f"def {name.removesuffix('.png')}(" in drawn for name in shown), shown


def _is_there(path: Path, place: str) -> bool:
    """Of another notebook JupyterLab finds a cell by its id; a heading only where it is drawn already."""
    cells = nbformat.read(path, as_version=4).cells
    if place.startswith("cell-id="):
        return any(cell.id == place.removeprefix("cell-id=") for cell in cells)
    headings = re.findall(r"^#+ (.+)$", "\n".join(cell.source for cell in cells), re.MULTILINE)
    return place in {heading.replace(" ", "-") for heading in headings}


def test_links_into_another_notebook_name_a_cell() -> None:
    texts = "\n".join(cell.source for path in NOTEBOOKS for cell in nbformat.read(path, as_version=4).cells)
    into = re.findall(r"\]\([\w.]+\.ipynb#([^)\s]+)", texts)
    assert into and all(place.startswith("cell-id=") for place in into), into


def test_the_course_is_one_story() -> None:
    """Each notebook but the last names the next, and the first names all."""
    course = [path for path in NOTEBOOKS if path.stem != "gallery"]
    for path, following in pairwise(course[1:]):
        assert f"]({following.name})" in nbformat.read(path, as_version=4).cells[-1].source, path.name
    listed = nbformat.read(course[0], as_version=4).cells[-1].source
    titles = [nbformat.read(path, as_version=4).cells[0].source.splitlines()[0] for path in course]
    assert all(f"]({path.name})" in listed for path in course[1:])
    assert all(title.startswith(f"# {path.stem[:2]} · ") for title, path in zip(titles, course, strict=True))


PICTURES = (
    "sglab.widgets.",
    "tree.page_table(",
    "lab.rows(",
    "lab.seen(",
    "lab.attention_weights(",
    "primer.attention_weights(",
)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_has_what_every_notebook_of_the_course_has(path: Path) -> None:
    """Goal, requirements, minutes, a figure, an early picture from a real run, questions, hints in levels, an exercise,
    a summary, further reading."""
    cells = nbformat.read(path, as_version=4).cells
    begin = "\n".join(cell.source for cell in cells[:2])
    whole = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    assert "**Goal:**" in begin and re.search(r"^You need ", begin, re.MULTILINE) and "minutes" in begin
    assert any("attachments" in cell for cell in cells)
    seen = [i for i, source in enumerate(code) if source.splitlines()[-1].startswith(PICTURES) or _is_shown(source)]
    assert seen and seen[0] <= 5, f"the first picture is made by code cell {seen[:1]}"
    assert sum(".check(" in source for source in code) >= 4
    assert "<summary>Hint 1</summary>" in whole and "<summary>Hint 2</summary>" in whole
    assert "**Exercise" in whole and "## What you have seen" in whole and "Further reading" in whole


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_takes_at_most_forty_minutes_and_says_how_many(path: Path) -> None:
    """The core, or each sitting; what is marked optional says its own minutes. Counted the same way for all."""
    for part in parts(nbformat.read(path, as_version=4)):
        assert part.stated is not None, part
        if part.optional:
            assert abs(part.stated - part.minutes) <= 1, part
        else:
            assert 20 <= part.stated <= 40 and part.stated % 5 == 0 and abs(part.stated - part.minutes) <= 3, part


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_the_core_stands_without_what_is_optional(path: Path) -> None:
    """Optional parts come last before the summary, and all of them are added up where the minutes are said."""
    cells = nbformat.read(path, as_version=4).cells
    headings = [
        line for cell in cells if cell.cell_type == "markdown" for line in re.findall("^##? .*", cell.source, re.M)
    ]
    first = next((i for i, line in enumerate(headings) if line.startswith("## Further: ")), None)
    if first is None:
        return
    assert headings[-1] == "## What you have seen"
    assert all(line.startswith("## Further: ") for line in headings[first:-1]), headings
    said = re.search(r"and (\d+) for what is optional", "\n".join(cell.source for cell in cells[:2]))
    optional = [part.stated for part in parts(nbformat.read(path, as_version=4)) if part.optional]
    assert said and int(said[1]) == sum(filter(None, optional)), path.stem


def _is_shown(source: str) -> bool:
    return source.splitlines()[-1] in ("launch", "picture", "weights")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_no_later_cell_takes_the_name_of_what_a_question_asks_about(path: Path) -> None:
    """Who runs all cells and then answers is asked about what the section made, not about a later one's."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    trees = [ast.parse("" if cell.source.startswith("%%") else cell.source) for cell in cells]
    stored = [_assigned(tree) for tree in trees]
    for i, tree in enumerate(trees):
        if not any(isinstance(each, ast.Attribute) and each.attr == "check" for each in ast.walk(tree)):
            continue
        used = {node.id for node in ast.walk(tree) if _is_name(node, ast.Load)} - stored[i]
        taken = used & set().union(*stored[i + 1 :])
        assert not taken, f"{path.stem}: {cells[i].source}: a later cell assigns {', '.join(sorted(taken))}"


def _assigned(tree: ast.AST) -> set[str]:
    """Names that a cell gives a meaning in the notebook; a function's own variables are not among them."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif not isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            found |= {node.id} if _is_name(node, ast.Store) else _assigned(node)
    return found


def _is_name(node: ast.AST, context: type[ast.expr_context]) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, context)


def run(notebook: nbformat.NotebookNode) -> None:
    with forked_kernels():
        NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": str(NOTEBOOKS[0].parent)}}).execute()


JUDGED = """
from sglab.labs.question import Question
def _judge(question):
    if not isinstance(question, Question):
        return  # exercises' ideas are judged in tests/labs
    assert question.check(question.answer()).right, question.answer()
    for idea, feedback in question.ideas:
        verdict = question.check(idea)
        assert verdict.right is False and verdict.text == feedback, (idea, feedback, str(verdict))
_judge(ASKED)
"""


def _questions(source: str) -> str:
    """The expression whose `check` a cell calls."""
    (found,) = [
        ast.unparse(node.func.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "check"
    ]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_runs_top_to_bottom(path: Path) -> None:
    """As it is shipped; and each question, where it stands, takes its right answer and knows wrong ones apart."""
    notebook = nbformat.read(path, as_version=4)
    for i, cell in reversed(list(enumerate(notebook.cells))):
        if cell.cell_type == "code" and ".check(answer)" in cell.source:
            asked = _questions(cell.source)
            notebook.cells.insert(i + 1, nbformat.v4.new_code_cell(JUDGED.replace("ASKED", asked)))
    run(notebook)
    shown = [str(output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    sources = [cell.source for cell in notebook.cells]
    questions = sum(".check(answer)" in source for source in sources)
    last = [source.splitlines()[-1] for source in sources]
    makes_one = ("sglab.widgets.", "tree.page_table(")
    widgets = sum(line.startswith(makes_one) or line in ("launch", "picture") for line in last)
    assert sum("Your turn." in text for text in shown) == questions
    assert sum("application/vnd.jupyter.widget-view+json" in text for text in shown) == widgets


def test_what_runs_for_real_is_a_kernel() -> None:
    cells = nbformat.read(named_notebook("04_split_kv"), as_version=4).cells
    (cell,) = [cell.source for cell in cells if "decode_attention_fwd(" in cell.source]
    names: dict[str, object] = {"torch": pytest.importorskip("torch"), "sglab": pytest.importorskip("sglab")}
    pytest.importorskip("triton")
    exec(cell, names)
    assert "triton" in str(names["last_choice"]())  # type: ignore[operator]


def test_the_page_size_may_be_changed() -> None:
    notebook = nbformat.read(named_notebook("02_page_tables"), as_version=4)
    first = next(cell for cell in notebook.cells if "decode_batch(seq_lens=[300" in cell.source)
    first.source = first.source.replace("page_size=64", "page_size=16")
    run(notebook)
    shown = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", ()))
    located = re.search(r"token 200 of request 1: .* slot (\d+)", shown)
    assert located and f"the engine says slot {located[1]}\n" in shown
    assert "tokens: False" not in shown


def named_notebook(stem: str) -> Path:
    return next(path for path in NOTEBOOKS if path.stem == stem)
