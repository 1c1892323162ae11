"""A program without its GPU libraries: they are named before it runs, with what needs them and what to do."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sglab.cli import main
from sglab.cudart.elf import dynamic_of
from sglab.cudart.libraries import is_of_a_gpu, libraries_not_opened, missing_libraries, remedy
from sglab.cudart.program import run_program
from sglab.cudart.runtime import LIBRARY
from sglab.gpu.errors import GpuError

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or not LIBRARY.exists(), reason="needs gcc and the CUDA runtime that sglab builds"
)


def compiled(folder: Path, name: str, source: str, *flags: str) -> Path:
    """A program, or a library with its own name as its soname."""
    code = folder / f"{name}.c"
    code.write_text(source)
    made = folder / name
    shared = ["-shared", "-fPIC", f"-Wl,-soname,{name}"] if ".so" in name else []
    command = ["gcc", *shared, "-o", made, code, f"-L{folder}", "-Wl,--no-as-needed", *flags]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return made


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """It needs libcublas.so.13 and, found beside it, libhelper.so, which needs libcublas.so.13 and libnvrtc.so.12."""
    for name in ("libcublas.so.13", "libnvrtc.so.12"):
        compiled(tmp_path, name, "int nothing;")
    compiled(tmp_path, "libhelper.so", "int helper;", "-l:libcublas.so.13", "-l:libnvrtc.so.12")
    flags = ("-l:libhelper.so", "-l:libcublas.so.13", "-Wl,-rpath,$ORIGIN")
    made = compiled(tmp_path, "program", "int main(void) { return 0; }", *flags)
    (tmp_path / "libcublas.so.13").unlink()
    (tmp_path / "libnvrtc.so.12").unlink()
    return made


def test_an_elf_file_says_what_it_needs(program: Path) -> None:
    own = dynamic_of(program)
    assert own is not None
    assert own.needed[:2] == ("libhelper.so", "libcublas.so.13")
    assert own.interpreter.startswith("/lib")
    helper = dynamic_of(program.with_name("libhelper.so"))
    assert helper is not None
    assert helper.interpreter == ""
    assert helper.needed[:2] == ("libcublas.so.13", "libnvrtc.so.12")


@pytest.mark.parametrize("cut", [0, 4, 40, 200, 1000])
def test_what_is_no_whole_elf_file_needs_nothing(program: Path, cut: int) -> None:
    broken = program.with_name("broken")
    broken.write_bytes(program.read_bytes()[:cut])
    assert dynamic_of(broken) is None
    broken.write_text("#!/bin/sh\nexit 0\n")
    assert dynamic_of(broken) is None
    assert missing_libraries(broken, os.environ) == []


def test_missing_libraries_are_named_before_the_run(program: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run-program", str(program)]) == 2
    said = capfd.readouterr().err
    assert "sglab: program cannot start; missing here:" in said
    assert "libcublas.so.13, which program and libhelper.so need: pip install nvidia-cublas, and name" in said
    assert "libnvrtc.so.12, which libhelper.so needs: pip install nvidia-cuda-nvrtc-cu12, and name" in said
    assert "error while loading shared libraries" not in said


def test_a_path_in_the_environment_counts(program: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("libcublas.so.13", "libnvrtc.so.12"):
        compiled(elsewhere, name, "int nothing;")
    assert missing_libraries(program, {**os.environ, "LD_LIBRARY_PATH": str(elsewhere)}) == []


def test_a_program_on_the_path_is_looked_at(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    with pytest.raises(GpuError, match=r"libcublas\.so\.13, which program and libhelper\.so need"):
        run_program(["program"])


OPENS = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) dlopen(argv[i], RTLD_NOW);
  if (argv[1][0] == 'l') fprintf(stderr, "%s\\n", dlerror());
  return argv[1][0] != '0';
}
"""


@pytest.mark.parametrize("how", ["silent", "loud"])
def test_libraries_that_a_program_opens_are_named_when_it_fails(tmp_path: Path, how: str) -> None:
    opens = compiled(tmp_path, "opens", OPENS, "-ldl")
    ran = run_program([opens, how, "libm.so.6", "libnone.so.1", "libcuda.so.1", "libcudnn.so.9"])
    assert ran.returncode == 1
    assert ran.stderr.count("\n  lib") == 1
    assert "  libcudnn.so.9: pip install nvidia-cudnn-cu13, and name" in ran.stderr


def test_nothing_is_said_of_a_program_that_does_without(tmp_path: Path) -> None:
    ran = run_program([compiled(tmp_path, "opens", OPENS, "-ldl"), "0", "libcudnn.so.9"])
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_loaders_own_words_count_too() -> None:
    said = "ImportError: libcusparseLt.so.0: cannot open shared object file: No such file or directory"
    assert [one.name for one in libraries_not_opened(said, [])] == ["libcusparseLt.so.0"]
    assert libraries_not_opened("libpng.so.16: cannot open shared object file", []) == []


def test_nvidias_own_runtime_in_the_program_is_refused(tmp_path: Path) -> None:
    program = compiled(tmp_path, "static", 'const char* name = "/cudart.shm.%x"; int main(void) { return !name; }')
    with pytest.raises(GpuError, match=r"-cudart static, the default.*Compile it again with -cudart shared"):
        run_program([program])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("libcublasLt.so.13", "pip install nvidia-cublas,"),
        ("libcublas.so.12", "pip install nvidia-cublas-cu12,"),
        ("libcufft.so.12", "pip install nvidia-cufft,"),
        ("libcudnn_ops.so.9", "pip install nvidia-cudnn-cu13,"),
        ("libcusparseLt.so.0", "pip install nvidia-cusparselt-cu13,"),
        ("libcusparse.so.12", "pip install nvidia-cusparse,"),
        ("libnppial.so.13", "pip install nvidia-npp,"),
        ("libnvrtc-builtins.so.13.0", "pip install nvidia-cuda-nvrtc,"),
        ("libcudart.so.12", "with nvcc 13 and -cudart shared"),
        ("libnvidia-ml.so.1", "NVIDIA's driver"),
    ],
)
def test_each_library_has_a_remedy(name: str, says: str) -> None:
    assert is_of_a_gpu(name)
    assert says in remedy(name)
    assert ("no PTX" in remedy(name)) == name.startswith(("libcub", "libcud", "libcus", "libcuf", "libnpp")) & (
        "cudart" not in name
    )


def test_other_libraries_are_not_of_a_gpu() -> None:
    for name in ("libm.so.6", "libcurl.so.4", "libcups.so.2", "libnvme.so.1", "libnpth.so.0"):
        assert not is_of_a_gpu(name)
        assert "install the package that has it" in remedy(name)
