"""The CUDA runtime library is found wherever the compiled core was installed."""

import subprocess
import sys
from pathlib import Path

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
