"""The device that conformance tests run on: `pytest tests/emulator --device cuda` holds them against a GPU."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="emulated", choices=["emulated", "cuda"], help="where conformance cases run")
