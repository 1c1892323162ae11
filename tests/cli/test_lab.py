"""`sglab lab`: the command that it starts, and copies of the notebooks that one may write into."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from sglab import cli
from sglab.jupyterlab.workspace import workspace
from tests.support.browser.jupyterlab_host import ROOT, answers, free_port
from tests.support.browser.patience import PATIENCE_S


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], object]]:
    made: list[tuple[list[str], object]] = []
    monkeypatch.setattr(cli, "hand_over", lambda command, folder: made.append((command, folder)) or 0)
    return made


def test_it_opens_the_first_notebook(commands: list) -> None:
    assert cli.main(["lab", "--no-browser", "--port", "9999"]) == 0
    ((command, cwd),) = commands
    assert "--no-browser" in command and "--port=9999" in command
    assert "--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb" in command
    assert f"--ServerApp.root_dir={cwd}" in command and cwd == cli.NOTEBOOKS.parent


def test_options_of_jupyterlab_are_passed_on(commands: list) -> None:
    cli.main(["lab", "--ServerApp.ip=0.0.0.0"])
    assert "--ServerApp.ip=0.0.0.0" in commands[0][0]
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--ServerApp.ip=0.0.0.0"])


def test_start_py_hands_over_to_it() -> None:
    """start.py may be started by any Python, so it is read here, not imported."""
    assert '"sglab.cli", "lab", *options' in (cli.NOTEBOOKS.parent / "start.py").read_text()


@pytest.mark.parametrize(("user", "allowed"), [(0, True), (1000, False)])
def test_root_may_start_it(commands: list, monkeypatch: pytest.MonkeyPatch, user: int, allowed: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    cli.main(["lab"])
    assert ("--allow-root" in commands[0][0]) is allowed


def test_copies_leave_the_checkout_clean_and_answers_stay(
    commands: list, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "course"
    cli.main(["lab", "--dir", str(folder)])
    names = {path.name for path in cli.NOTEBOOKS.glob("*.ipynb")}
    assert {path.name for path in folder.iterdir()} == names
    assert "--LabApp.default_url=/lab/tree/00_start_here.ipynb" in commands[0][0] and commands[0][1] == folder
    answered = folder / "02_page_tables.ipynb"
    answered.write_text("my answers")
    (folder / "gallery.ipynb").unlink()
    cli.main(["lab", "--dir", str(folder)])
    assert answered.read_text() == "my answers" and (folder / "gallery.ipynb").exists()
    assert f"1 notebooks copied, {len(names) - 1} kept" in capsys.readouterr().out


def test_a_folder_that_cannot_be_made_is_one_line(
    commands: list, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert cli.main(["lab", "--dir", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith("sglab: ") and not commands


def test_without_notebooks_there_is_nothing_to_copy(
    commands: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "NOTEBOOKS", tmp_path / "none")
    assert cli.main(["lab", "--dir", str(tmp_path / "course")]) == 2
    assert "come with the repository" in capsys.readouterr().err


def test_the_workspace_is_offered_once(commands: list, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jupyterlab")
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", str(tmp_path))
    cli.main(["lab", "--workspace"])
    assert "--LabApp.default_url=/lab/workspaces/sglab" in commands[0][0]
    (file,) = tmp_path.glob("*.jupyterlab-workspace")
    kept = json.loads(file.read_text())
    assert kept["data"] == workspace("notebooks/gallery.ipynb")["data"]
    file.write_text(json.dumps({**kept, "data": {"mine": 1}}))
    cli.main(["lab", "--workspace"])
    assert json.loads(file.read_text())["data"] == {"mine": 1}


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGTERM")
def test_sigterm_ends_jupyterlab_too(tmp_path: Path) -> None:
    pytest.importorskip("jupyterlab")
    port = free_port()
    settings = {"JUPYTER_CONFIG_DIR": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime")}
    command = [
        sys.executable,
        "-m",
        "sglab.cli",
        "lab",
        "--no-browser",
        f"--port={port}",
        "--dir",
        str(tmp_path / "mine"),
    ]
    command += ["--IdentityProvider.token=sglab-tests", "--ServerApp.port_retries=0"]
    with (tmp_path / "log").open("wb") as log:
        lab = subprocess.Popen(
            command, env={**os.environ, **settings, "PYTHONPATH": str(ROOT)}, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            address = f"http://127.0.0.1:{port}/api?token=sglab-tests"
            assert answers(address, lab), (tmp_path / "log").read_text()
            lab.send_signal(signal.SIGTERM)
            lab.wait(timeout=PATIENCE_S)
            with pytest.raises(OSError, match="refused"):
                urllib.request.urlopen(address)
        finally:
            lab.kill()
            lab.wait()
