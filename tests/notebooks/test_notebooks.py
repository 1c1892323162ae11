"""Every notebook runs top to bottom as it is shipped: without outputs, without answers, without errors."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def named(path: Path) -> str:
    return path.stem


def test_all_ten_notebooks_are_there() -> None:
    assert list(map(named, NOTEBOOKS)) == [
        "00_start_here",
        "01_page_tables",
        "02_split_kv",
        "03_online_softmax",
        "04_shared_memory",
        "05_debugger",
        "07_pipelines",
        "09_sm100_mla",
        "10_mla_hopper",
        "gallery",
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_is_shipped_without_outputs_or_answers(path: Path) -> None:
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            assert not cell.outputs and cell.execution_count is None, cell.source
            assert ".check(" not in cell.source or "answer = ..." in cell.source, cell.source


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_runs_top_to_bottom(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=3600, resources={"metadata": {"path": str(path.parent)}}).execute()
    shown = [str(output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    sources = [cell.source for cell in notebook.cells]
    questions = sum(".check(answer)" in source for source in sources)
    widgets = sum(source.splitlines()[-1].startswith("sglab.widgets.") for source in sources)
    assert sum("Your turn." in text for text in shown) == questions
    assert sum("application/vnd.jupyter.widget-view+json" in text for text in shown) == widgets
