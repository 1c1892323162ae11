"""Builds the instrumented front end, when clang with libFuzzer is here."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from sglab_fuzz.process import ROOT

FOLDERS = {True: ROOT / "build" / "guided", False: ROOT / "build" / "guided-plain"}
"""By whether the target is sanitized."""
_SOURCE = Path(__file__).parent
_NEED = "guided search needs clang++ 14 or later with libFuzzer, and CMake"


def missing() -> str | None:
    """Why it cannot be built here, or None."""
    for tool in ("clang++", "cmake"):
        if shutil.which(tool) is None:
            return f"{_NEED}: {tool} was not found (Debian: apt install clang libclang-rt-14-dev cmake)"
    program = 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'
    with tempfile.TemporaryDirectory() as folder:
        command = ["clang++", "-fsanitize=fuzzer,address", "-x", "c++", "-", "-o", f"{folder}/empty"]
        tried = subprocess.run(command, input=program, capture_output=True, text=True)
    if tried.returncode:
        last = tried.stderr.strip().splitlines()[-1:] or ["no message"]
        return f"{_NEED}: clang++ -fsanitize=fuzzer,address says {last[0]!r} (Debian: apt install libclang-rt-14-dev)"
    return None


def build(jobs: int, sanitized: bool) -> Path:
    """Compile what changed, below build.

    Args:
        sanitized: with ASan and UBSan; without, inputs run several times as fast.

    Returns:
        The target's path.

    Raises:
        RuntimeError: what is missing, or the compiler's last lines.
    """
    reason = missing()
    if reason is not None:
        raise RuntimeError(reason)
    folder = FOLDERS[sanitized]
    configure = ["cmake", "-S", _SOURCE, "-B", folder, "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_CXX_COMPILER=clang++"]
    configure.append(f"-DSGLAB_GUIDED_SANITIZED={'ON' if sanitized else 'OFF'}")
    if shutil.which("ninja") and not (folder / "CMakeCache.txt").exists():
        configure += ["-G", "Ninja"]
    if shutil.which("ccache"):
        configure.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    for command in (configure, ["cmake", "--build", folder, "--parallel", str(jobs)]):
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{command[0]} {command[1]} failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return folder / "front_guided"
