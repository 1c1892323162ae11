"""The CUDA runtime library is found wherever the compiled core was installed."""

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from sglab.cudart.runtime import LIBRARY

# Stands in for the finder of an editable install: the Python files are here, the compiled core is elsewhere.
FINDER = """
import importlib.util, sys

class Elsewhere:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return importlib.util.spec_from_file_location(name, sys.argv[1]) if name == "sglab._core" else None

sys.meta_path.insert(0, Elsewhere)
from sglab.cudart.runtime import LIBRARY
print(LIBRARY)
"""


def test_an_editable_install_finds_its_library_beside_the_compiled_core(tmp_path: Path) -> None:
    core = tmp_path / "sglab" / "_core.so"
    found = subprocess.run([sys.executable, "-c", FINDER, str(core)], capture_output=True, text=True, check=True)
    assert Path(found.stdout.strip()) == tmp_path / "sglab" / "lib" / "libsglab_cudart.so"


@pytest.mark.skipif(not LIBRARY.exists(), reason="needs the CUDA runtime that sglab builds on Linux")
def test_a_texture_is_described_and_its_array_refused_by_name() -> None:
    class Format(ctypes.Structure):
        _fields_: ClassVar = [(name, ctypes.c_int) for name in ("x", "y", "z", "w", "kind")]

    library = ctypes.CDLL(str(LIBRARY))
    library.cudaCreateChannelDesc.restype = Format
    library.cudaGetErrorString.restype = ctypes.c_char_p
    made = library.cudaCreateChannelDesc(32, 16, 8, 0, 2)
    assert (made.x, made.y, made.z, made.w, made.kind) == (32, 16, 8, 0, 2)
    not_supported = 801
    for function in ("cudaMallocArray", "cudaMemcpy2DToArray", "cudaCreateTextureObject", "cudaCreateSurfaceObject"):
        assert getattr(library, function)() == not_supported
        assert function in library.cudaGetErrorString(not_supported).decode()
