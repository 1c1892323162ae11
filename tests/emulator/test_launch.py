"""Kernels compiled by nvcc run on the emulator; wrong launches are refused; faults name their place."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from sglab import _core
from tests.support.emulator.launching import HEADER, launch

CUDA = r"""
extern "C" __global__ void vector_add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void reduce(const float* a, float* out, int n) {
  __shared__ float partial[256];
  float sum = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += a[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int k = 128; k >= 32; k >>= 1) {
    if (threadIdx.x < k) partial[threadIdx.x] += partial[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x < 32) {
    sum = partial[threadIdx.x];
    for (int k = 16; k; k >>= 1) sum += __shfl_xor_sync(~0u, sum, k);
    if (threadIdx.x == 0) atomicAdd(out, sum);
  }
}
"""
STORE = (
    HEADER
    + """
.file 1 "store.cu"
.visible .entry store(.param .u64 out, .param .u32 n) {
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
  .loc 1 7 3
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x;
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd2, %r2, 4;
  add.s64 %rd3, %rd1, %rd2;
  .loc 1 8 3
  st.global.u32 [%rd3], %r2;
DONE:
  ret;
}
"""
)


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> _core.Module:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed")
    folder: Path = tmp_path_factory.mktemp("cuda")
    (folder / "kernels.cu").write_text(CUDA)
    subprocess.run(
        ["nvcc", "-ptx", "-lineinfo", "-arch=sm_90", "kernels.cu", "-o", "kernels.ptx"], cwd=folder, check=True
    )
    return _core.Module((folder / "kernels.ptx").read_text(), "kernels.ptx")


@pytest.mark.parametrize("scheduler", ["fair", "random", "adversarial", "in_order"])
@pytest.mark.parametrize("n", [1, 31, 1000, 4097])
def test_vector_add_is_exact(compiled: _core.Module, n: int, scheduler: str) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.standard_normal((2, n), np.float32)
    c = np.full(n, np.nan, np.float32)
    arguments = [a, b, c, ("i", n)]
    launch(compiled.kernel("vector_add"), arguments, (-(-n // 128), 1, 1), (128, 1, 1), scheduler=scheduler)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("scheduler", ["fair", "random", "adversarial", "in_order"])
def test_reduction_through_shared_memory_and_shuffles(compiled: _core.Module, scheduler: str, threads: int) -> None:
    a = np.random.default_rng(1).standard_normal(10_000, np.float32)
    out = np.zeros(1, np.float32)
    arguments = [a, out, ("i", a.size)]
    launch(compiled.kernel("reduce"), arguments, (6, 1, 1), (256, 1, 1), scheduler=scheduler, threads=threads)
    np.testing.assert_allclose(out[0], a.sum(dtype=np.float64), rtol=1e-5, atol=1e-3)


def test_report_counts_instructions() -> None:
    report = launch(STORE, [np.zeros(64, np.uint32), ("u", 64)], block=(64, 1, 1))
    assert report.warp_instructions == 2 * 9
    assert report.by_class["param"] == 4
    assert report.by_class["global"] == 2


def test_store_outside_its_allocation_names_lane_source_and_neighbour() -> None:
    out = np.zeros(40, np.uint32)
    with pytest.raises(_core.LaunchError, match=r"0 bytes past the end of 'out'") as caught:
        launch(STORE, [out, ("u", 64)], block=(64, 1, 1))
    error = caught.value
    assert (error.kind, error.warp, error.lane) == ("out_of_bounds", 1, 8)
    assert (error.source_file, error.source_line) == ("store.cu", 8)
    assert out[:32].tolist() == list(range(32))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block": (1025, 1, 1)}, "1 to 1024 threads"),
        ({"block": (0, 1, 1)}, "1 to 1024 threads"),
        ({"grid": (0, 1, 1)}, "out of range"),
        ({"grid": (3, 1, 1), "cluster": (2, 1, 1)}, "does not divide"),
        ({"cluster": (17, 1, 1)}, "1 to 16 CTAs"),
        ({"smem": 300_000}, "exceed 232448"),
    ],
)
def test_wrong_launch_is_refused(change: dict, message: str) -> None:
    with pytest.raises(_core.LaunchError, match=message) as caught:
        launch(STORE, [np.zeros(64, np.uint32), ("u", 1)], **change)
    assert caught.value.kind == "launch"


def test_wrong_parameter_size_is_refused() -> None:
    kernel = _core.Module(STORE).kernel("store")
    with pytest.raises(_core.LaunchError, match="12 bytes of parameters, not 3"):
        _core.Machine("sm_90", 1).launch(kernel, (1, 1, 1), (1, 1, 1), (1, 1, 1), 0, b"abc", [])


def test_unknown_instruction_is_refused_by_name_before_anything_runs() -> None:
    ptx = STORE.replace("mov.u32 %r2, %tid.x;", "mov.u32 %r2, %tid.x;\n  frobnicate.u32 %r3, %r2;")
    kernel = _core.Module(ptx).kernel("store")
    assert kernel.unsupported == ["unknown instruction frobnicate.u32 (PTX line 12, store.cu:7)"]
    out = np.zeros(4, np.uint32)
    with pytest.raises(_core.LaunchError, match=r"frobnicate\.u32"):
        _core.Machine("sm_90", 1).launch(
            kernel, (1, 1, 1), (4, 1, 1), (1, 1, 1), 0, out.ctypes.data.to_bytes(8, "little") + b"\4\0\0\0", []
        )
    assert not out.any()


def test_endless_kernel_stops_at_its_limit() -> None:
    with pytest.raises(_core.LaunchError, match="more than its limit") as caught:
        launch(".entry spin() { L: bra L; }", [], max_instructions=100_000)
    assert caught.value.kind == "livelock"


def test_barrier_that_a_warp_never_reaches_is_a_described_deadlock() -> None:
    ptx = """
.entry stuck() {
  .reg .pred %p<2>; .reg .b32 %r<2>;
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 32;
  @%p1 bra OTHER;
  bar.sync 1, 64;
  ret;
OTHER:
  bar.sync 2, 64;
  ret;
}"""
    with pytest.raises(_core.LaunchError) as caught:
        launch(ptx, [], block=(64, 1, 1))
    assert caught.value.kind == "deadlock"
    assert "warp 0 lanes 0xffffffff waits at barrier 2 (32 of 64 threads have arrived)" in str(caught.value)
    assert "warp 1 lanes 0xffffffff waits at barrier 1 (32 of 64 threads have arrived)" in str(caught.value)


def test_warps_that_wait_alike_are_one_line_of_a_deadlock() -> None:
    ptx = """
.entry stuck() {
  .reg .pred %p<3>; .reg .b32 %r<2>;
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 32; setp.ge.u32 %p2, %r1, 128;
  @%p1 bra OTHER;
  @%p2 bra OTHER;
  bar.sync 1, 128;
  ret;
OTHER:
  bar.sync 2, 96;
  ret;
}"""
    with pytest.raises(_core.LaunchError) as caught:
        launch(ptx, [], block=(160, 1, 1))
    text = str(caught.value)
    assert "CTA (0, 0, 0) warps 0, 4 lanes 0xffffffff wait at barrier 2 (64 of 96 threads have arrived)" in text
    assert "CTA (0, 0, 0) warps 1 to 3 lanes 0xffffffff wait at barrier 1 (96 of 128 threads have arrived)" in text
    assert text.partition("who waits for whom")[0].count("\n  CTA") == 2
