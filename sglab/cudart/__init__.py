"""The CUDA runtime on the emulator: compiled host code, as an extension or a program, launches its kernels there."""

from sglab.cudart.extension import HostExtension, build_extension
from sglab.cudart.program import run_program

__all__ = ["HostExtension", "build_extension", "run_program"]
