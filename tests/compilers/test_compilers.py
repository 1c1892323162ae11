"""Compilers produce PTX once and keep it; several processes share what one of them built."""

import io
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sglab import gpu
from sglab.compilers.cache import cache_folder, cached, content_key
from sglab.compilers.nvcc import compile_cuda, find_nvcc, run_nvcc
from sglab.gpu.errors import CompileError, MissingDependencyError
from sglab.gpu.progress import announced
from tests.support.compilers import has_nvcc

SOURCE = '#include "factor.h"\nextern "C" __global__ void scale(float* x) {\n  x[threadIdx.x] *= FACTOR;\n}\n'


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SGLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


needs_nvcc = pytest.mark.skipif(not has_nvcc(), reason="needs nvcc, which was not found")


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("SGLAB_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "sglab"


def test_a_result_is_built_once() -> None:
    built = []

    def build(folder: Path) -> None:
        built.append(folder)
        (folder / "result").write_text("done")

    assert (cached("test", "key", build) / "result").read_text() == "done"
    assert (cached("test", "key", build) / "result").read_text() == "done"
    assert len(built) == 1


def test_a_failed_build_leaves_nothing() -> None:
    def build(folder: Path) -> None:
        (folder / "result").write_text("half")
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        cached("test", "key", build)
    assert not [path for path in (cache_folder() / "test").iterdir() if path.is_dir()]


def test_a_stale_result_is_built_again() -> None:
    for text in ("old", "new"):
        folder = cached(
            "test",
            "key",
            lambda folder, text=text: (folder / "result").write_text(text),  # type: ignore[misc]
            valid=lambda folder, text=text: (folder / "result").read_text() == text,  # type: ignore[misc]
        )
        assert (folder / "result").read_text() == text


def test_keys_tell_boundaries_apart() -> None:
    assert content_key("ab", "c") != content_key("a", "bc")


def test_processes_wait_for_the_one_that_builds(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, time\nfrom sglab.compilers.cache import cached\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "def build(folder):\n"
        "    (here / 'log').open('a').write('built\\n')\n"
        "    while len(list(here.glob('asks.*'))) < 3: time.sleep(0.01)\n"
        "    (folder / 'result').write_text('done')\n"
        "(here / f'asks.{os.getpid()}').touch()\n"
        "assert (cached('test', 'key', build) / 'result').read_text() == 'done'\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    assert (tmp_path / "log").read_text() == "built\n"


def test_only_slow_work_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()  # not capsys: what a timer says while readouterr empties its file is lost
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr("sglab.gpu.progress.PATIENCE", 3600)
    with announced("compiling quickly"):
        pass
    assert shown.getvalue() == ""
    monkeypatch.setattr("sglab.gpu.progress.PATIENCE", 0.01)
    with announced("compiling slowly"):
        while not shown.getvalue():
            time.sleep(0.001)
    assert re.fullmatch(r"\[sglab\] compiling slowly …\n\[sglab\] compiling slowly: \d+\.\d s\n", shown.getvalue())


@needs_nvcc
def test_cuda_compiles_to_ptx_and_again_when_a_header_changes(tmp_path: Path) -> None:
    (tmp_path / "factor.h").write_text("#define FACTOR 3.0f\n")
    file = tmp_path / "scale.cu"
    file.write_text(SOURCE)
    first = gpu.load(file, arch="sm_90a")
    assert (first.target, list(first), first.name) == ("sm_90a", ["scale"], "scale.cu")
    assert "0f40400000" in first.ptx  # 3.0
    assert gpu.load(file, arch="sm_90a").ptx == first.ptx
    (tmp_path / "factor.h").write_text("#define FACTOR 11.0f\n")
    assert "0f41300000" in gpu.load(file, arch="sm_90a").ptx  # 11.0


@needs_nvcc
def test_what_nvcc_says_is_shown() -> None:
    with pytest.raises(CompileError, match=r'nvcc could not compile wrong:\n.*expected a ";"') as caught:
        compile_cuda("__global__ void f() { int x }\n", name="wrong")
    assert "wrong.cu(1)" in str(caught.value)


def test_the_linkers_own_words_are_shown(tmp_path: Path) -> None:
    said = [
        "host.cu(3): warning: unused",
        "/usr/bin/ld: warning: missing .note.GNU-stack section",
        "/usr/bin/ld: cannot find -lsglab_cudart: No such file or directory",
        "collect2: error: ld returned 1 exit status",
    ]
    nvcc = [sys.executable, "-c", f"import sys; sys.exit({chr(10).join(said)!r})"]
    with pytest.raises(CompileError) as caught:
        run_nvcc(nvcc, "host", tmp_path)
    assert str(caught.value).splitlines() == ["nvcc could not compile host:", *said[2:]]


def test_without_nvcc_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglab.compilers.nvcc.shutil.which", lambda name: None)
    monkeypatch.setattr("sglab.compilers.nvcc._wheel_folders", list)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(MissingDependencyError, match=r"pip install 'sglab\[nvcc\]'"):
        find_nvcc()


def test_loading_needs_ptx_or_cuda(tmp_path: Path) -> None:
    ptx = ".version 9.0\n.target sm_100a\n.entry k()\n{\n}\n"
    (tmp_path / "a.ptx").write_text(ptx)
    assert list(gpu.load(tmp_path / "a.ptx")) == list(gpu.load(str(tmp_path / "a.ptx"))) == list(gpu.load(ptx)) == ["k"]
    with pytest.raises(gpu.GpuError, match=r"expected a .ptx or .cu file, or the text of one; got 'kernel.txt'"):
        gpu.load("kernel.txt")
