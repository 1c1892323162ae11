"""docs/api.md lists what the packages offer."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).parent.parent


def test_the_list_of_public_names_is_up_to_date() -> None:
    ran = subprocess.run(
        [sys.executable, "docs/update_api.py", "--check"], cwd=ROOT, env={"PYTHONPATH": "."}, capture_output=True
    )
    assert ran.returncode == 0, ran.stderr.decode()


def test_the_page_of_backends_is_up_to_date() -> None:
    run = subprocess.run(
        [sys.executable, "docs/update_backends.py", "--check"], cwd=ROOT, env={"PYTHONPATH": "."}, capture_output=True
    )
    assert run.returncode == 0, run.stderr.decode()
