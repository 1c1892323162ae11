"""Compilers in a forked child."""

import gc
import os
from pathlib import Path
from typing import Any

import pytest

from sglab.compilers.child import in_child


class Abort:
    """Ends a process that is not its own when it is freed, as tensors of CUDA do in a forked one."""

    def __init__(self) -> None:
        self.process = os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.process:
            os.abort()


@pytest.fixture
def garbage() -> Any:
    """In a circle that nothing refers to, and no collection on the way."""
    gc.disable()
    circle: list[Any] = [Abort()]
    circle.append(circle)
    del circle
    yield
    gc.enable()
    gc.collect()


@pytest.mark.usefixtures("garbage")
def test_what_the_parent_left_is_not_freed_in_the_child(tmp_path: Path) -> None:
    in_child("a kernel", _collect, tmp_path)


def _collect() -> None:
    gc.collect()
