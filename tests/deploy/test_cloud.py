"""SkyPilot's task files: its own schema where it is installed, and everywhere what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[2]
TASKS = sorted((ROOT / "deploy" / "cloud").glob("*.yaml"))


@pytest.mark.parametrize("file", TASKS, ids=lambda file: file.stem)
def test_a_task_asks_for_one_gpu_and_ends_itself(file: Path) -> None:
    task = yaml.safe_load(file.read_text())
    assert list(task["resources"]["accelerators"].split(":"))[1] == "1"
    assert task["resources"]["autostop"] == {"idle_minutes": 30, "down": True}
    assert len(task["resources"]["any_of"]) >= 3
    for line in (*task["setup"].splitlines(), *task["run"].splitlines()):
        script = next(word for word in line.split() if "start.py" in word or "sglab" in word)
        assert (ROOT / script).exists() or script == ".venv/bin/sglab"


@pytest.mark.parametrize("file", TASKS, ids=lambda file: file.stem)
def test_skypilot_accepts_the_task(file: Path) -> None:
    schemas = pytest.importorskip("sky.utils.schemas", reason="needs skypilot, which has an environment of its own")
    jsonschema = pytest.importorskip("jsonschema")
    task = yaml.safe_load(file.read_text())
    jsonschema.validate(task, schemas.get_task_schema())
    jsonschema.validate(task["resources"], schemas.get_resources_schema())


def test_links_name_every_notebook() -> None:
    script = str(ROOT / "deploy" / "cloud" / "links.py")
    said = subprocess.run(
        [sys.executable, script, "ada/course", "--branch", "a/b"], capture_output=True, text=True
    ).stdout
    assert "https://mybinder.org/v2/gh/ada/course/a%2Fb?urlpath=lab%2Ftree%2Fnotebooks%2F00_start_here.ipynb" in said
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        assert f"/ada/course/blob/a/b/notebooks/{notebook.name}" in said
    refused = subprocess.run([sys.executable, script, "https://x"], capture_output=True, text=True)
    assert refused.returncode == 2 and "expected OWNER/REPOSITORY" in refused.stderr
