"""The package imports without its optional dependencies and says, when one is needed, which extra brings it."""

import subprocess
import sys

import pytest

BLOCKED = """
import sys
for name in ("torch", "triton", "cuda"):
    sys.modules[name] = None
"""


def without_extras(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BLOCKED + code], capture_output=True, text=True)


def test_importing_needs_neither_torch_nor_triton() -> None:
    ran = without_extras("import sglab.gpu, sglab.triton")
    assert ran.returncode == 0, ran.stderr


def test_a_triton_kernel_without_triton_names_the_extra() -> None:
    ran = without_extras("from sglab.triton import triton_kernel\n@triton_kernel\ndef k(x): pass")
    assert "A Triton kernel needs the package 'triton': pip install 'sglab[kernels]'" in ran.stderr


def test_the_page_table_without_triton_names_the_extra() -> None:
    pytest.importorskip("torch")
    code = "import sglab\nsglab.widgets.PageTable(sglab.decode_batch([300], page_size=64))"
    without_triton = "import sys\nsys.modules['triton'] = None\n"
    ran = subprocess.run([sys.executable, "-c", without_triton + code], capture_output=True, text=True)
    assert ran.stderr.splitlines()[-1].endswith(
        "PageTable, which steps through a Triton kernel, needs the package 'triton': pip install 'sglab[kernels]'"
    ), ran.stderr
