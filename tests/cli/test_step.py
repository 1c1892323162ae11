"""`sglab step`: a kernel of one's own from a file, without a notebook."""

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
import numpy as np

from sglab.cli import build_parser, main
from sglab.emulator import Capture
from sglab.gpu.errors import CompileError, LaunchError
from sglab.step_file import arguments, dims, launch_of
from tests.support.compilers import has_nvcc

needs_nvcc = pytest.mark.skipif(not has_nvcc(), reason="no nvcc")
KERNELS = """__global__ void axpy(const float* x, float* out, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] += a * x[i];
}
__global__ void scale(float* out) { out[threadIdx.x] *= 2; }
"""
MODULE = """
import torch
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, 2 * tl.load(x_ptr + i, i < n), i < n)

def both(n):
    import sglab
    return sglab.step(double[(1,)], torch.ones(n), torch.zeros(n), n, BLOCK=64)

def nothing():
    pass

number = 3
"""
CUTE = """
import cutlass
import cutlass.cute as cute


@cute.kernel
def add_kernel(a: cute.Tensor, b: cute.Tensor, out: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 128 + thread
    if i < cute.size(out):
        out[i] = a[i] + b[i]


@cute.jit
def add(a: cute.Tensor, b: cute.Tensor, out: cute.Tensor):
    add_kernel(a, b, out).launch(grid=(cute.ceil_div(cute.size(out), 128), 1, 1), block=(128, 1, 1))
"""


def launched(text: str) -> object:
    return launch_of(build_parser().parse_args(["step", *text.split()]))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.cu"
    path.write_text(KERNELS)
    return path


@pytest.fixture
def module(tmp_path: Path) -> Path:
    pytest.importorskip("triton")
    path = tmp_path / "own_kernels.py"
    path.write_text(MODULE)
    return path


@needs_nvcc
def test_a_cuda_file(source: Path) -> None:
    launch = launched(
        f"{source} --kernel axpy --grid 2 --block 64 --arch sm_90a --arg ones:100 --arg zeros:100 --arg 2.5 --arg 100"
    )
    assert (launch.geometry.grid, launch.geometry.block) == ((2, 1, 1), (64, 1, 1))
    launch.session().run()
    assert torch.equal(launch.tensors["out"], torch.full((100,), 2.5))
    assert str(launch.device.arch) == "sm_90a" and launch.device.sanitize


def test_a_triton_function(module: Path) -> None:
    launch = launched(f"{module}::double --grid 2 --arg rand:100 --arg zeros:100 --arg 100 --arg BLOCK=64")
    launch.session().run()
    assert torch.equal(launch.tensors["out_ptr"], 2 * launch.tensors["x_ptr"])


def test_a_plain_function_is_called_and_its_launch_taken(module: Path) -> None:
    launch = launched(f"{module}::both --arg 64")
    assert not isinstance(launch, Capture) and launch.tensors["x_ptr"].numel() == 64


@needs_nvcc
def test_the_page_is_written_where_no_browser_is_wanted(source: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["step", str(source), "--kernel", "scale", "--arg", "ones:128", "--html", str(page)]) == 0
    assert "out[threadIdx.x] *= 2" not in page.read_text()[:200] and page.stat().st_size > 50_000


@needs_nvcc
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{source} --arg 1", "--kernel: kernels.cu has 2 kernels; choose one of axpy, scale"),
        ("{source} --kernel gemm", "no entry is called 'gemm'"),
        ("{source} --kernel scale --arg n=3", "--arg n=…: kernels of .cu files take arguments by position"),
        ("{source} --kernel scale --arg zeroes:3", "--arg: expected randn:1024:float32"),
        ("{source} --kernel scale --arg zeroes:3", "got 'zeroes:3'. Did you mean zeros?"),
        (
            "{source} --kernel scale --arg zeros:3:flaot32",
            "expected a torch dtype, such as float32 or int64; got 'flaot32'. Did you mean float32?",
        ),
        (
            "{source} --kernel scale --arg zeros:3x",
            "--arg zeros:3x: expected a shape after zeros:, such as 1024 or 2x3; got '3x'",
        ),
        ("{source} --kernel scale --arg ones:128:float64", "takes float*"),
        ("{source} --kernel scale --arg load:none.npy", "--arg load:none.npy: expected a file of NumPy's, FILE.npy"),
        ("{source} --kernel scale --arg load:{source}", "expected a file of NumPy's, FILE.npy"),
        ("{source} --kernel scale", "takes 1 arguments (out); got 0. Add out"),
        ("{source} --kernel scale --arg ones:8 --arg 3", "takes 1 arguments (out); got 2. Leave the last 1 out"),
        ("kernel.cpp", "file: expected a .cu or .ptx file, or file.py::function"),
        ("missing.py::f", "missing.py does not exist"),
        ("missing.cu", f"missing.cu does not exist in {Path.cwd()}. Check the name"),
    ],
)
def test_refusals_are_one_line(text: str, message: str, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["step", *text.format(source=source).split()]) == 2
    told = capsys.readouterr().err
    assert message in told and "Traceback" not in told


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("::other", "has no 'other'; it has double, both, nothing"),
        ("::number", "expected a kernel or a function"),
        ("", "expected .*::function, of double, both, nothing; got"),
    ],
)
def test_a_python_file_needs_a_function(module: Path, name: str, message: str) -> None:
    with pytest.raises(LaunchError, match=message):
        launched(f"{module}{name}")


def test_the_only_function_of_a_python_file_needs_no_name(module: Path) -> None:
    module.write_text(MODULE.partition("def both")[0])
    launch = launched(f"{module} --arg ones:64 --arg zeros:64 --arg 64 --arg BLOCK=64")
    assert not isinstance(launch, Capture) and launch.tensors["x_ptr"].numel() == 64


def test_a_page_in_a_folder_that_is_missing_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["step", "missing.cu", "--html", str(tmp_path / "none" / "page.html")]) == 2
    told = capsys.readouterr().err
    assert "--html: expected a file in a folder that exists" in told and "missing.cu" not in told


def test_a_function_that_launches_nothing_is_refused(module: Path) -> None:
    with pytest.raises(LaunchError, match="nothing was launched"):
        launched(f"{module}::nothing")


def test_arguments_are_written_as_words(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(2, 3))
    texts = ["randn:2x3:bfloat16", "arange:4:int32", "7", "0x10", "2.5", "none", "true", f"load:{tmp_path / 'x.npy'}"]
    (random, counted, seven, hexadecimal, half, nothing, yes, loaded), named = arguments([*texts, "BLOCK=128"], 0)
    assert random.dtype == torch.bfloat16 and random.shape == (2, 3) and counted.tolist() == [0, 1, 2, 3]
    assert (seven, hexadecimal, half, nothing, yes, named) == (7, 16, 2.5, None, True, {"BLOCK": 128})
    assert loaded.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert torch.equal(arguments(["rand:8"], 1)[0][0], arguments(["rand:8"], 1)[0][0])
    assert arguments(["zeros:2,3:int32"], 0)[0][0].shape == (2, 3)  # as --grid is written


@needs_nvcc
def test_sizes_that_the_kernel_prescribes_need_not_be_said(tmp_path: Path) -> None:
    path = tmp_path / "peers.cu"
    path.write_text(
        """__global__ void __cluster_dims__(2, 1, 1) peers(float* out) { out[blockIdx.x] = 1; }
__global__ void __block_size__((64, 1, 1)) sized(float* out) { out[threadIdx.x] = 1; }
"""
    )
    assert launched(f"{path} --kernel peers --grid 4 --arg zeros:4").geometry.cluster == (2, 1, 1)
    assert launched(f"{path} --kernel sized --arg zeros:64").geometry.block == (64, 1, 1)


@needs_nvcc
def test_a_struct_that_is_given_as_a_tensor(tmp_path: Path) -> None:
    path = tmp_path / "by_struct.cu"
    path.write_text("struct P { float* a; int n; };\n__global__ void by_struct(P p) { p.a[threadIdx.x] = p.n; }")
    with pytest.raises(LaunchError, match=r"p .*: expected bytes or a ctypes.Structure of 16 bytes, .*; got a tensor"):
        launched(f"{path} --arg randn:4")


def test_a_function_of_the_cute_dsl(tmp_path: Path) -> None:
    pytest.importorskip("cutlass")
    path = tmp_path / "own_cute.py"
    path.write_text(CUTE)
    launch = launched(f"{path}::add --arg randn:300 --arg randn:300 --arg zeros:300")
    assert not isinstance(launch, Capture) and launch.geometry.grid == (3, 1, 1)
    launch.session().run()
    assert torch.equal(launch.tensors["out"], launch.tensors["a"] + launch.tensors["b"])
    with pytest.raises(LaunchError, match=r"got the @cute.kernel add_kernel. Give the @cute.jit function"):
        launched(f"{path}::add_kernel --arg randn:300 --arg randn:300 --arg zeros:300")
    with pytest.raises(CompileError) as told:
        launched(f"{path}::add --arg randn:300 --arg 3 --arg zeros:300")
    assert "argument #2 (b)" in str(told.value)
    assert "\x1b" not in str(told.value) and "compilers/cute.py" not in str(told.value)


def test_sizes_are_written_with_commas_or_crosses() -> None:
    assert [dims(text) for text in ("4", "2,8", "2x8x1")] == [(4,), (2, 8), (2, 8, 1)]


def test_the_command_runs_as_a_module_where_its_script_is_not_on_path() -> None:
    done = subprocess.run([sys.executable, "-m", "sglab", "step", "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: sglab step")


def test_launches_of_plain_triton_kernels_in_a_function_are_caught(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    source = """import torch
import triton
import triton.language as tl


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


tuned = triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])(twice)


def run(n):
    x, y = torch.ones(n), torch.zeros(n)
    twice[(2,)](x, y, n, BLOCK=64)
    tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](y, x, n)
    assert x.tolist() == [4.0] * n
"""
    (tmp_path / "several.py").write_text(source)
    found = launch_of(build_parser().parse_args(["step", f"{tmp_path / 'several.py'}::run", "--arg", "100"]))
    assert isinstance(found, Capture)
    assert [launch.name for launch in found] == ["twice", "twice"]
    from triton.runtime.jit import KernelInterface

    assert "sglab" not in KernelInterface.__getitem__.__module__, "Triton is left as it was"
