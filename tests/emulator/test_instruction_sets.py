"""Hosts without vector extensions compute the same bits: every conformance form and mma.sync on random bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def computed(isa: str) -> tuple[str, dict[str, str]]:
    """The set that a process which is asked for `isa` chooses, and its digests."""
    command = [sys.executable, "-m", "tests.support.conformance.digests"]
    environment = os.environ | {"SGLAB_ISA": isa}
    output = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    said = json.loads(output)
    return said["isa"], said["digests"]


@pytest.fixture(scope="module")
def best() -> tuple[str, dict[str, str]]:
    return computed("avx512")


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_results_do_not_depend_on_the_instruction_set(isa: str, best: tuple[str, dict[str, str]]) -> None:
    chosen, digests = best
    if chosen == isa:
        pytest.skip(f"{chosen} is the best that this host has")
    used, others = computed(isa)
    if used != isa:
        pytest.skip(f"this host has {chosen}, not {isa}")
    assert len(others) > 1000
    assert {name for name in digests if digests[name] != others[name]} == set()
