"""Conformance tests: `--device cuda` holds them against a GPU, `--fuzz-seed N` draws other random inputs."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="emulated", choices=["emulated", "cuda"], help="where conformance cases run")
    parser.addoption("--fuzz-seed", type=int, default=0, help="changes the random inputs of conformance cases")
