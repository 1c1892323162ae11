"""The package imports without its optional dependencies and says, when one is needed, which extra brings it."""

import subprocess
import sys

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
