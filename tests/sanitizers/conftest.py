"""The corpus of real kernels is the emulator's tests'."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "emulator"))
