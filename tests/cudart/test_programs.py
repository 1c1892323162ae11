"""Programs that nvcc compiled run as they are: Thrust, CUB, and what CUDA's samples ask of the runtime."""

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
    import subprocess

    folder = tmp_path_factory.mktemp("programs")
    programs = {}
    for source in PROGRAMS.glob("*.cu"):
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
    ran = run_program([compiled["samples"]])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    # Sums of 0 to 7, 8 to 15 and 24 to 31; of 32 threads 11, 11 and 10 have the same remainder.
    assert ran.stdout.splitlines()[0] == "tiles 2811 9210 22011, limit 1048576, callback 5"
    assert ran.stdout.splitlines()[1:] == ["grid 18 0, tiles of two warps 2016 6112", "assert 710"]
    assert "read_after_write_race" not in ran.stderr


def test_a_program_runs_with_sanitizers(compiled: dict[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run-program", "--sanitize", str(compiled["samples"])]) == 0
    said = capfd.readouterr()
    assert "assert 710" in said.out
    assert "unequal(int*): error: read_after_write_race" in said.err
    assert "samples.cu" in said.err
