"""How long a notebook takes is counted, part by part; docs/teaching.md says the same; a sitting stands by itself."""

import ast
import builtins
import re
from pathlib import Path

import nbformat
import pytest

from tools.notebooks import command
from tools.notebooks.minutes import parts

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
V = nbformat.v4


def minutes(*cells: nbformat.NotebookNode) -> list[tuple[str, float]]:
    return [(part.title, round(part.minutes, 2)) for part in parts(V.new_notebook(cells=list(cells)))]


def test_each_thing_to_do_counts() -> None:
    assert minutes(V.new_markdown_cell("word " * 300)) == [("", 2)]
    assert minutes(V.new_code_cell("import torch\n\n# why\n" + "x = 1\n" * 24)) == [("", 2)]
    assert minutes(V.new_code_cell("answer = ...\nlab.one().check(answer)")) == [("", 1.5)]
    assert minutes(V.new_code_cell("sglab.widgets.PageTable(batch)")) == [("", round(2 + 1 / 12, 2))]
    assert minutes(V.new_code_cell("sglab.widgets.KernelDebugger(session)")) == [("", round(4 + 1 / 12, 2))]
    assert minutes(V.new_markdown_cell("![a tile](attachment:tile.png)")) == [("", round(1 + 2 / 150, 2))]


def test_an_exercise_counts_once_and_its_hints_not() -> None:
    text = V.new_markdown_cell(
        "**Exercise.** Write it.\n\n<details><summary>Hint 1</summary>" + "long " * 500 + "</details>"
    )
    answer = V.new_code_cell("answer = ...  # replace by: it\nlab.it().check(answer)")
    assert minutes(text, answer) == [("", round(6 + 3 / 150, 2))]


def test_what_goes_further_is_counted_apart_until_the_next_section() -> None:
    text = "word " * 149
    cells = (
        V.new_markdown_cell(f"## One\n\n{text}"),
        V.new_markdown_cell(f"## Further: two\n\n*Optional, about 3 minutes.*\n\n{text}\n\n### Still two\n\n{text}"),
        V.new_markdown_cell(f"## Three\n\n{text}"),
    )
    core, further = parts(V.new_notebook(cells=list(cells)))
    assert (core.minutes, core.optional) == (2, False)
    assert (further.title, further.optional, further.stated, further.rounded) == ("Further: two", True, 3, 2)


def test_what_comes_before_the_first_sitting_belongs_to_it() -> None:
    text = "word " * 150
    found = minutes(
        V.new_markdown_cell(text), V.new_markdown_cell("# Sitting 1: a"), V.new_markdown_cell("# Sitting 2: b")
    )
    assert found == [("Sitting 1: a", 1.02), ("Sitting 2: b", 0.02)]


def test_the_page_for_teachers_says_what_the_notebooks_say() -> None:
    page = (ROOT / "docs" / "teaching.md").read_text("utf-8")
    section = page.partition("## How long a notebook takes")[2].partition("\n## ")[0]
    said = {
        name.strip(): (core.strip(), further.strip())
        for name, core, further in re.findall(r"\| (\d\d|gallery) \| ([\d +]+) \|( \d+ | )(?=\|)", section)
    }
    for path in NOTEBOOKS:
        found = parts(nbformat.read(path, as_version=4))
        core = " + ".join(str(part.stated) for part in found if not part.optional)
        further = sum(part.stated or 0 for part in found if part.optional)
        assert said[path.stem.partition("_")[0]] == (core, str(further or "")), path.stem


@pytest.mark.parametrize(("stem", "shared"), [("24_myths", 0), ("gallery", 1)])
def test_a_sitting_needs_no_other(stem: str, shared: int) -> None:
    """Every name that its cells use comes from its own cells; the gallery's sittings share the first code cell."""
    cells = nbformat.read(ROOT / "notebooks" / f"{stem}.ipynb", as_version=4).cells
    starts = [i for i, cell in enumerate(cells) if cell.source.startswith("# Sitting ")]
    assert len(starts) >= 2
    common = [cell for cell in cells if cell.cell_type == "code"][:shared]
    for start, end in zip(starts[1:], [*starts[2:], len(cells)], strict=True):
        own = [cell.source for cell in (*common, *cells[start:end]) if cell.cell_type == "code"]
        nodes = [node for source in own for node in ast.walk(ast.parse(source))]
        made = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        made |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                made |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        assert not sorted(used - made - set(dir(builtins))), cells[start].source


def test_the_command_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["minutes", "08"]) == 0
    core, further = capsys.readouterr().out.splitlines()
    assert core.startswith("08_debugger") and "35 said" in core
    assert further.endswith("Further: One that hung in production") and "11 said" in further
