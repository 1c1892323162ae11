"""CUDA host programs compiled elsewhere, run as they are, their kernels on the emulator."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from sglab.compilers.cache import cached, content_key
from sglab.cudart.libraries import libraries_not_opened, require_libraries, said_of
from sglab.cudart.runtime import LIBRARY, require_library
from sglab.gpu.architecture import Architecture


def run_program(
    command: Sequence[str | Path],
    arch: str = "sm_100a",
    sms: int | None = None,
    threads: int = 1,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    sanitize: bool = False,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program with sglab's CUDA runtime in the place of libcudart.so.13, and of the driver, libcuda.so.1.

    The program must use the shared CUDA 13 runtime (nvcc -cudart shared) or the driver, and hold PTX for `arch`
    (-gencode arch=compute_100a,code=compute_100a). Kernels run when they are launched; a fault becomes a CUDA error
    whose text says where. Event times are those of the emulation.

    Args:
        command: program and arguments.
        arch, sms, threads: as for EmulatedDevice.
        timeout: seconds.
        env: variables on top of this process's.
        sanitize: look for races and misuse while kernels run; what is found goes to stderr, launch by launch.
        folder: where it starts; None for this process's.

    Returns:
        with stdout and stderr as text. If the program failed, stderr also names libraries that it tried to open.

    Raises:
        GpuError: the program needs libraries that are missing, or has NVIDIA's runtime in it.
    """
    limits = Architecture.parse(arch).limits
    major, minor = divmod(Architecture.parse(arch).capability, 10)
    count = limits.sms if sms is None else sms
    sizes = f"{limits.smem} {limits.sm_smem} {limits.cluster} {limits.sm_threads} {limits.sm_ctas} {threads}"
    device = f"{major}.{minor} {count} {sizes} emulated {arch}, {count} SMs"
    path = [str(runtime_folder()), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    variables = {**os.environ, **(env or {}), "LD_LIBRARY_PATH": os.pathsep.join(path), "SGLAB_DEVICE": device}
    if sanitize:
        variables["SGLAB_SANITIZE"] = "1"
    words = [str(word) for word in command]
    require_libraries(program_file(words[0], variables, folder), variables)
    with TemporaryDirectory() as notes:
        watched = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": f"{notes}/searches"} if "LD_DEBUG" not in variables else {}
        ran = subprocess.run(
            words, env={**variables, **watched}, capture_output=True, text=True, timeout=timeout, cwd=folder
        )
        if ran.returncode != 0:
            searches = [file.read_text(errors="replace") for file in Path(notes).iterdir()]
            ran.stderr += said_of(libraries_not_opened(ran.stdout + ran.stderr, searches))
    return ran


def program_file(name: str, env: Mapping[str, str], folder: Path | None) -> Path:
    """The file that the system runs for the first word of a command."""
    if os.sep not in name:
        return Path(shutil.which(name, path=env.get("PATH")) or name)
    return (folder or Path()) / name


def runtime_folder() -> Path:
    """A folder in which sglab's CUDA runtime and driver have the names that programs look for: put it on
    LD_LIBRARY_PATH."""
    require_library()

    def build(folder: Path) -> None:
        for name in ("libcudart.so.13", "libcuda.so.1"):
            (folder / name).symlink_to(LIBRARY)

    return cached("runtime", content_key("runtime and driver", LIBRARY), build)
