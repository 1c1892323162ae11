"""The golden files are what their generators make of the real planners, where those can be had.

A generator fetches what it runs: wheels from PyPI, FlashMLA and flash-attention from GitHub, or from $SGLAB_UPSTREAM.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from tests.planning.golden import files

NEEDS = {
    "make_fa3_num_splits": ("g++",),
    "make_flash_mla": ("nvcc",),
    "make_flashinfer": ("nvcc",),
    "make_num_kv_splits": (),
}
FETCH = "SGLAB_FETCH_UPSTREAM"


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_a_golden_file_is_what_its_source_gives(name: str) -> None:
    if not os.environ.get(FETCH):
        pytest.skip(f"fetches the real planners from PyPI and GitHub: set {FETCH}=1")
    for program in NEEDS[name]:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    command = [sys.executable, "-m", f"tests.planning.golden.{name}", "--check"]
    ran = subprocess.run(command, cwd=files.HERE.parents[2], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_every_golden_file_has_a_generator() -> None:
    generators = {path.stem for path in files.HERE.glob("make_*.py")}
    assert generators == set(NEEDS)
    written = "".join((files.HERE / f"{name}.py").read_text() for name in NEEDS)
    for golden in files.HERE.glob("*.json"):
        assert f'"{golden.stem}"' in written, f"no generator names {golden.name}"
