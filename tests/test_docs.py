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
