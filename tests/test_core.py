"""The compiled core loads and says which instruction set it runs with."""

import os
import subprocess
import sys

import pytest

from sglab import _core


def test_active_isa_is_known() -> None:
    assert _core.active_isa() in {"baseline", "avx2", "avx512"}


@pytest.mark.parametrize("isa", ["baseline", "avx2"])
def test_isa_can_be_lowered_by_environment(isa: str) -> None:
    order = ["baseline", "avx2", "avx512"]
    code = "from sglab import _core; print(_core.active_isa())"
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SGLAB_ISA": isa},
        capture_output=True,
        text=True,
        check=True,
    )
    assert order.index(ran.stdout.strip()) <= order.index(isa)
