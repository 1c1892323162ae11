"""SkyPilot's task files fit its own schema, and do what they promise.

skypilot.schema.json is what sky.utils.schemas of skypilot 0.14.1 gives for a task and its resources, without
descriptions; its licence lies beside it. Where skypilot is installed (in an environment of its own), it reads the
tasks itself.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[2]
TASKS = sorted((ROOT / "deploy" / "cloud").glob("*.yaml"))
SCHEMA = json.loads(Path(__file__).with_name("skypilot.schema.json").read_text())


def problems(task: dict[str, Any]) -> list[str]:
    jsonschema = pytest.importorskip("jsonschema")
    parts = (("task", task), ("resources", task["resources"]))
    found = [error for name, part in parts for error in jsonschema.Draft7Validator(SCHEMA[name]).iter_errors(part)]
    return [f"{'/'.join(map(str, error.path))}: {error.message}" for error in found]


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
def test_the_task_fits_skypilots_schema(file: Path) -> None:
    assert not problems(yaml.safe_load(file.read_text()))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("resources", "disk_size"), "a lot"),
        (("resources", "autostop", "idle_minutes"), "half an hour"),
        (("resources", "gpus"), "B200:1"),
        (("runs",), "sglab lab"),
        (("num_nodes",), "one"),
    ],
)
def test_the_schema_refuses_what_is_wrong(path: tuple[str, ...], value: object) -> None:
    broken = copy.deepcopy(yaml.safe_load(TASKS[0].read_text()))
    *way, last = path
    place = broken
    for name in way:
        place = place[name]
    place[last] = value
    assert problems(broken)


@pytest.mark.parametrize("file", TASKS, ids=lambda file: file.stem)
def test_skypilot_reads_the_task(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sky = pytest.importorskip("sky", reason="needs skypilot, which has an environment of its own")
    monkeypatch.chdir(ROOT)
    task = sky.Task.from_yaml(str(file))
    wanted = file.stem.upper()
    assert task.name == f"sglab-{file.stem}" and task.setup and task.run
    assert all(one.accelerators == {wanted: 1} and one.ports == ["8888"] for one in task.resources)
    assert len({str(one.cloud) for one in task.resources}) == len(task.resources) >= 3


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
