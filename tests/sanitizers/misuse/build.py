"""Compiles the kernels of the catalogue of misuse: python tests/sanitizers/misuse/build.py (needs nvcc)."""

import re
import subprocess
from pathlib import Path

HERE = Path(__file__).parent

if __name__ == "__main__":
    for arch in ("sm_90a", "sm_100a"):
        command = ["nvcc", "-ptx", "-lineinfo", "-std=c++17", f"-arch={arch}", f"{arch}.cu", "-o", f"{arch}.ptx"]
        subprocess.run(command, cwd=HERE, check=True)
        ptx = HERE / f"{arch}.ptx"
        # Names of files, not where they happened to lie.
        ptx.write_text(re.sub(r'(\.file\s+\d+ )".*/', r'\1"', ptx.read_text()))
