"""How `python3 start.py test` spreads the tests over workers."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xdist")

from tests.support.spreading import ALONE, ByFile

ROOT = Path(__file__).parent.parent


def test_a_files_tests_stay_together_and_long_ones_go_alone() -> None:
    scheduling = ByFile.__new__(ByFile)
    scope = scheduling._split_scope
    assert scope("tests/a/test_b.py::Class::test_c[x::y]") == "tests/a/test_b.py"
    assert scope("tests/browser/test_a_in_jupyterlab.py::test_b") == "jupyterlab"
    assert all((ROOT / file).exists() and scope(f"{file}::test_a[b]") == f"{file}::test_a[b]" for file in ALONE)


def test_xdist_asks_for_it() -> None:
    """Two workers, two files: each file has one worker."""
    command = [sys.executable, "-m", "pytest", "tests/test_core.py", "tests/test_optional.py", "-v", "-n", "2"]
    command += ["--dist", "load", "-p", "no:cacheprovider"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    lines = [line.split() for line in said.splitlines() if line.startswith("[gw")]
    workers = {(line[0], word.partition("::")[0]) for line in lines for word in line if "::" in word}
    assert len(workers) == len({file for _, file in workers}) == 2, said
