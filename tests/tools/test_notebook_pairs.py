"""Each notebook has its text; an edited text is taken into the notebook, which loses nothing."""

from pathlib import Path

import nbformat
import pytest

pytest.importorskip("jupytext")

from tools.notebooks import command, pairs

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def _named(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_named)
def test_the_text_is_that_of_the_notebook(path: Path) -> None:
    assert pairs.agree(path), f"python -m tools.notebooks sync {path.stem}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_named)
def test_nothing_that_is_read_is_lost_in_the_text(path: Path) -> None:
    import jupytext

    notebook = nbformat.read(path, as_version=4)
    again = jupytext.reads(pairs.text_of(notebook), pairs.FORMAT)
    assert [(c.cell_type, c.source) for c in again.cells] == [(c.cell_type, c.source) for c in notebook.cells]


def test_no_text_has_lost_its_notebook() -> None:
    assert pairs.without_notebook(FOLDER) == []


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small notebook with a figure, in a folder of its own."""
    figure = nbformat.v4.new_markdown_cell("# One\n\n![a](attachment:a.png)", id="one")
    figure["attachments"] = {"a.png": {"image/png": "AAAA"}}
    cells = [
        figure,
        nbformat.v4.new_code_cell("x = 1", id="two"),
        nbformat.v4.new_markdown_cell("The end.", id="three"),
    ]
    path = tmp_path / "01_one.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    monkeypatch.setattr(command, "NOTEBOOKS", tmp_path)
    monkeypatch.setattr(command.chosen, "__defaults__", (tmp_path,))
    return path


def test_sync_writes_check_compares_take_takes(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["check"]) == 1 and "01_one.md: differs" in capsys.readouterr().out
    assert command.main(["sync"]) == 0 and command.main(["check"]) == 0
    text = pairs.text_path(copied)
    assert "AAAA" not in text.read_text() and "attachment:a.png" in text.read_text()
    assert not pairs.take(copied)
    text.write_text(
        text.read_text()
        .replace("x = 1", "x = 2")
        .replace("The end.", "A middle.\n\n<!-- #region -->\nEnd.\n<!-- #endregion -->")
    )
    assert command.main(["check"]) == 1
    assert command.main(["take", "01"]) == 0 and command.main(["check"]) == 0
    cells = nbformat.read(copied, as_version=4).cells
    assert [cell.source for cell in cells] == ["# One\n\n![a](attachment:a.png)", "x = 2", "A middle.", "End."]
    assert [cell.id for cell in cells[:3]] == ["one", "two", "three"]
    assert cells[0].attachments["a.png"] == {"image/png": "AAAA"}


def test_a_figure_that_is_no_longer_shown_goes_and_so_does_a_text_without_notebook(copied: Path) -> None:
    command.main(["sync"])
    text = pairs.text_path(copied)
    text.write_text(text.read_text().replace("![a](attachment:a.png)", "no picture"))
    assert pairs.take(copied) and "attachments" not in nbformat.read(copied, as_version=4).cells[0]
    copied.rename(copied.with_name("02_two.ipynb"))
    assert command.main(["sync"]) == 0 and not text.exists() and (text.parent / "02_two.md").exists()


def test_what_is_not_there_is_said(copied: Path) -> None:
    with pytest.raises(FileNotFoundError, match="sync 01_one writes it"):
        pairs.take(copied)
    with pytest.raises(SystemExit, match="begins with '07'; there are 01_one"):
        command.main(["sync", "07"])
