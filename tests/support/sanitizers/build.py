"""Compiles the kernels of a catalogue: python tests/support/sanitizers/build.py races, or misuse (needs nvcc)."""

import argparse
import re
import subprocess
from pathlib import Path

HERE = Path(__file__).parent

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("catalogue", choices=("races", "misuse"))
    folder = HERE / parser.parse_args().catalogue
    for arch in ("sm_90a", "sm_100a"):
        command = ["nvcc", "-ptx", "-lineinfo", "-std=c++17", f"-arch={arch}", f"{arch}.cu", "-o", f"{arch}.ptx"]
        subprocess.run(command, cwd=folder, check=True)
        ptx = folder / f"{arch}.ptx"
        # Names of files, not where they happened to lie.
        ptx.write_text(re.sub(r'(\.file\s+\d+ )".*/', r'\1"', ptx.read_text()))
