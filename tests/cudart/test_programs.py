"""Programs that nvcc compiled run as they are: Thrust, CUB, and what CUDA's samples ask of the runtime."""

import re
import subprocess
from pathlib import Path

import pytest

from sglab.cli import main
from sglab.compilers.nvcc import find_nvcc
from sglab.cudart.program import run_program
from sglab.cudart.runtime import LIBRARY
from tests.support.compilers import has_nvcc

PROGRAMS = Path(__file__).parent / "programs"

pytestmark = pytest.mark.skipif(
    not has_nvcc() or not LIBRARY.exists(), reason="needs nvcc and the CUDA runtime that sglab builds on Linux"
)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Name -> program."""
    folder = tmp_path_factory.mktemp("programs")
    programs = {}
    for source in (PROGRAMS / name for name in ("device_heap.cu", "graphs.cu", "samples.cu", "thrust_and_cub.cu")):
        programs[source.stem] = folder / source.stem
        command = [find_nvcc(), "-std=c++17", "-lineinfo", "-cudart", "shared", "-o", folder / source.stem, source]
        flags = ["-gencode", "arch=compute_100a,code=compute_100a"]
        subprocess.run([*map(str, command), *flags], check=True, capture_output=True)
    return programs


def test_thrust_and_cub(compiled: dict[str, Path]) -> None:
    ran = run_program([compiled["thrust_and_cub"]])
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "reduce 12497500",
        "sorted 1 -4999 0",
        "scan -12497500",
        "cub max -4999",
        "symbols 4 10",
        "ptx 100 binary 100 clock 1",
    ]


def test_what_samples_ask_of_the_runtime(compiled: dict[str, Path]) -> None:
    ran = run_program([compiled["samples"]], sms=2)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    # Sums of 0 to 7, 8 to 15 and 24 to 31; of 32 threads 11, 11 and 10 have the same remainder.
    assert ran.stdout.splitlines()[0] == "tiles 2811 9210 22011, limit 1048576, callback 5"
    assert ran.stdout.splitlines()[1:] == [
        "grid 18 0, 2 of 2 SMs, one more cudaErrorCooperativeLaunchTooLarge 1, last 720, tiles of two warps 2016 6112",
        "assert 710, waited 710 710, launched 710, copied 710",
    ]
    assert "read_after_write_race" not in ran.stderr


def test_a_heap_in_kernels(compiled: dict[str, Path]) -> None:
    ran = run_program([compiled["device_heap"]], sanitize=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout == "sums 100 131, blocks 5, limit 1048576: cudaSuccess, then cudaErrorInvalidValue\n"
    assert "device_heap_leak: 32 bytes in 2 blocks" in ran.stderr


def test_graphs(compiled: dict[str, Path]) -> None:
    ran = run_program([compiled["graphs"]])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines() == [
        "by hand: 5 nodes, 4 edges, 15 15 300, 3 calls",  # the second launch keeps the argument of the first
        "without a node: 100",
        "a circle: cudaErrorInvalidValue",
        "destroyed: cudaErrorInvalidValue",
        "captured: side 1, 7 nodes, 1 root, 7 edges, nothing ran: 3",
        "launched: 1010 2017",  # 3 + 1000 + 7, and again on what the first launch left
        "update: cudaErrorGraphExecUpdateFailure 2",
        "synchronize: cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated",
        "malloc: cudaErrorStreamCaptureUnsupported, cudaErrorStreamCaptureInvalidated",
        "legacy: cudaErrorStreamCaptureImplicit, cudaErrorStreamCaptureInvalidated",
        "outside: cudaErrorStreamCaptureIsolation, cudaErrorStreamCaptureInvalidated",
        "unjoined: cudaSuccess, cudaErrorStreamCaptureUnjoined",
        "end: cudaErrorIllegalState",
        "joined, destroyed: cudaSuccess, cudaSuccess",
        "only destroyed: cudaSuccess, cudaErrorStreamCaptureUnjoined",
        "null stream: cudaErrorStreamCaptureUnsupported",
        "fine: cudaSuccess, cudaSuccess",
    ]


def test_a_program_of_the_driver(tmp_path: Path) -> None:
    """It links libcuda.so.1, loads PTX and launches: kernels, variables, graphs, im2col maps, errors."""
    ran = run_program([driver_program(tmp_path), tmp_path / "kernels.ptx"])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.splitlines() == [
        "early: CUDA_ERROR_NOT_INITIALIZED CUDA_ERROR_INVALID_CONTEXT, sm 10, 148 SMs",
        "no PTX: CUDA_ERROR_NO_BINARY_FOR_GPU, no kernel: CUDA_ERROR_NOT_FOUND",
        "launched: 5 253, argument 2 at 16 of 4, variable of 4",
        "packed, in a graph: 104 352",
        "im2col: 0 16 32 48 64 80 96 112, moved yes",
        "im2col::w: 64 80 96 112 320 336 352 368 0 0, without a swizzle: CUDA_ERROR_INVALID_VALUE",
        "found: 0, missing: CUDA_ERROR_NOT_FOUND",
        "range: 1 256, twice freed: CUDA_ERROR_INVALID_VALUE, unloaded: CUDA_ERROR_INVALID_HANDLE",
    ]


def driver_program(folder: Path) -> Path:
    """Compiles driver.cpp without the CUDA runtime, and its kernels to folder/kernels.ptx.

    To link, it needs a library of the driver's name with its functions, as the toolkit's stubs are.
    """

    def run(*command: str | Path) -> str:
        return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout

    nvcc = find_nvcc()
    run(nvcc, "-ptx", "-arch=sm_100a", PROGRAMS / "driver_kernels.cu", "-o", folder / "kernels.ptx")
    exported = {line.split()[-1].partition("@")[0] for line in run("nm", "-D", "--defined-only", LIBRARY).splitlines()}
    functions = sorted(name for name in exported if re.match("cu[A-Z]", name))
    (folder / "stub.c").write_text("".join(f"void {name}(void) {{}}\n" for name in functions))
    run("gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", folder / "stub.c", "-o", folder / "libcuda.so")
    program = folder / "driver"
    run(nvcc, "-std=c++17", "-cudart", "none", PROGRAMS / "driver.cpp", "-o", program, f"-L{folder}", "-lcuda")
    return program


def test_a_program_runs_with_sanitizers(compiled: dict[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run-program", "--sanitize", str(compiled["samples"])]) == 0
    said = capfd.readouterr()
    assert "assert 710" in said.out
    assert "unequal(int*): error: read_after_write_race" in said.err
    assert "samples.cu" in said.err
