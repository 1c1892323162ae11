"""An Arm host computes the same bits: the core, cross-compiled, runs conformance kernels under qemu."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.support.conformance.digests import Job, jobs

SOURCE = Path(__file__).parent / "portable"
COMPILER, RUNNER = "aarch64-linux-gnu-g++", "qemu-aarch64"
EVERY = 5
"""Of the forms of the table, one in so many runs here; all of mma.sync does."""


def fnv(data: bytes) -> str:
    """FNV-1a, as the driver prints it."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{value:016x}"


def write(job: Job, folder: Path) -> None:
    folder.mkdir()
    (folder / "kernel.ptx").write_text(job.ptx)
    sizes = [job.grid, job.block, job.count, job.result_bytes, *(a.nbytes for a in job.inputs)]
    (folder / "sizes.txt").write_text(" ".join(map(str, sizes)))
    (folder / "inputs.bin").write_bytes(b"".join(np.ascontiguousarray(a).tobytes() for a in job.inputs))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver for aarch64. Its build takes minutes; SGLAB_PORTABLE_BUILD names a folder to keep it in."""
    for tool in (COMPILER, RUNNER, "cmake", "ninja"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not on PATH")
    if (kept := os.environ.get("SGLAB_PORTABLE_BUILD")) is None:
        pytest.skip("builds the core for aarch64, which takes minutes: set SGLAB_PORTABLE_BUILD to a folder for it")
    target = [
        "-DCMAKE_SYSTEM_NAME=Linux",
        "-DCMAKE_SYSTEM_PROCESSOR=aarch64",
        f"-DCMAKE_CXX_COMPILER={COMPILER}",
        "-DCMAKE_BUILD_TYPE=Release",
    ]
    if shutil.which("ccache"):
        target.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    subprocess.run(["cmake", "-S", SOURCE, "-B", kept, "-G", "Ninja", *target], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", kept, "--target", "digests"], check=True, stdout=subprocess.DEVNULL)
    return Path(kept) / "digests"


def test_an_arm_host_computes_the_same_bits(driver: Path, tmp_path: Path) -> None:
    every = list(jobs())
    chosen = [job for k, job in enumerate(every) if k % EVERY == 0 or job.name.startswith("mma")]
    folders = [tmp_path / str(k) for k in range(len(chosen))]
    for job, folder in zip(chosen, folders, strict=True):
        write(job, folder)
    said = subprocess.run([RUNNER, driver, *folders], check=True, capture_output=True, text=True).stdout.split()
    assert len(said) == len(chosen)
    assert [job.name for job, there in zip(chosen, said, strict=True) if there != fnv(job.run())] == []
