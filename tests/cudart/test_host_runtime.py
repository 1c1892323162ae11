"""Host code compiled by nvcc runs on sglab's CUDA runtime: what it launches reaches the device, whole and checked."""

import ctypes
import ctypes.util
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.compilers import has_nvcc

torch = pytest.importorskip("torch")

from sglab import gpu
from sglab.compilers.nvcc import find_nvcc, nvcc_version
from sglab.cudart.extension import HostExtension, build_extension
from sglab.cudart.program import run_program
from sglab.cudart.runtime import LIBRARY

SOURCE = r"""
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>

struct Scaling { float factor; short offset; };
__global__ void scale(float* x, int n, Scaling s) {
  extern __shared__ float tile[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { tile[threadIdx.x] = x[i] * s.factor + s.offset; x[i] = tile[threadIdx.x]; }
}
__global__ void __cluster_dims__(2, 1, 1) in_pairs(int* x) { x[blockIdx.x] = blockIdx.x; }
__global__ void mapped(const __grid_constant__ CUtensorMap map, int* x) { x[0] = *reinterpret_cast<const int*>(&map); }

extern "C" int run_scale(float* x, int n, float factor, int offset, int smem) {
  scale<<<(n + 127) / 128, 128, smem>>>(x, n, Scaling{factor, static_cast<short>(offset)});
  return cudaGetLastError();
}
extern "C" int allow_smem(int bytes) {
  cudaFuncSetAttribute(scale, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  return cudaGetLastError();
}
extern "C" int run_pairs(int* x) {
  int* copy;
  if (cudaMalloc(&copy, 16)) return -1;
  cudaMemset(copy, 7, 16);
  in_pairs<<<4, 32>>>(copy);
  cudaMemcpy(x, copy, 16, cudaMemcpyDeviceToHost);
  return cudaFree(copy);
}
extern "C" int run_cluster(int* x, int size) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = size;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(8);
  config.blockDim = dim3(32);
  config.attrs = &attribute;
  config.numAttrs = 1;
  void* arguments[] = {&x};
  return cudaLaunchKernelExC(&config, reinterpret_cast<void*>(in_pairs), arguments);
}
extern "C" int run_mapped(void* x, int box) {
  using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                              const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                              CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found);
  if (found != cudaDriverEntryPointSuccess) return -1;
  CUtensorMap map;
  cuuint64_t sizes[] = {64, 8}, strides[] = {256};
  cuuint32_t boxes[] = {static_cast<cuuint32_t>(box), 8}, steps[] = {1, 1};
  if (reinterpret_cast<Encode>(encode)(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x, sizes, strides, boxes, steps,
                                       CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                       CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    return -2;
  mapped<<<1, 1>>>(map, static_cast<int*>(x));
  return cudaGetLastError();
}
extern "C" int describe(char* out) {
  cudaDeviceProp p;
  int optin, sms;
  cudaGetDeviceProperties(&p, 0);
  cudaDeviceGetAttribute(&optin, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
  const struct { int property; cudaDeviceAttr attribute; } both[] = {
      {p.canMapHostMemory, cudaDevAttrCanMapHostMemory}, {p.managedMemory, cudaDevAttrManagedMemory},
      {p.concurrentManagedAccess, cudaDevAttrConcurrentManagedAccess}, {p.l2CacheSize, cudaDevAttrL2CacheSize},
      {p.cooperativeLaunch, cudaDevAttrCooperativeLaunch}, {p.asyncEngineCount, cudaDevAttrAsyncEngineCount},
      {p.memoryPoolsSupported, cudaDevAttrMemoryPoolsSupported},
      {p.streamPrioritiesSupported, cudaDevAttrStreamPrioritiesSupported}};
  for (const auto& one : both) {
    int attribute;
    cudaDeviceGetAttribute(&attribute, one.attribute, 0);
    if (attribute != one.property || attribute == 0) return 1;
  }
  sprintf(out, "%s, %d.%d, %d = %d SMs, %zu = %d bytes, %d threads, grid %d, clusters %d", p.name, p.major, p.minor,
          p.multiProcessorCount, sms, p.sharedMemPerBlockOptin, optin, p.maxThreadsPerBlock, p.maxGridSize[1],
          p.clusterLaunch);
  return 0;
}
extern "C" const char* last_words(int error) { return cudaGetErrorString(static_cast<cudaError_t>(error)); }
"""


pytestmark = pytest.mark.skipif(
    not has_nvcc() or not LIBRARY.exists(), reason="needs nvcc and the CUDA runtime that sglab builds on Linux"
)


class Listener:
    """A device that only takes note of what it is to run."""

    arch = gpu.Architecture.parse("sm_100a")
    sms = 148
    name = "listening sm_100a"
    torch_device = "cpu"

    def __init__(self) -> None:
        self.heard: list[gpu.Launch] = []
        self.fault: Exception | None = None

    def run(self, launch: gpu.Launch) -> str:
        self.heard.append(launch)
        if self.fault:
            raise self.fault
        return "heard"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("SGLAB_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="module")
def host(cache: Path) -> HostExtension:
    return build_extension("host", SOURCE)


def on(host: HostExtension, device: Any, *tensors: Any) -> Any:
    return host.on(device, list(tensors))


def test_a_launch_arrives_with_its_parameters_and_memory(host: HostExtension) -> None:
    x, device = torch.zeros(300), Listener()
    with on(host, device, x) as visit:
        assert host.library.run_scale(ctypes.c_void_p(x.data_ptr()), 300, ctypes.c_float(1.5), -3, 512) == 0
    (launch,) = device.heard
    assert "scale" in launch.kernel.name
    assert launch.kernel.module.target == "sm_100a"
    assert (launch.geometry.grid, launch.geometry.block, launch.geometry.smem) == ((3, 1, 1), (128, 1, 1), 512)
    assert len(launch.params) == 20  # with two bytes of padding at Scaling's end, in which anything may stand
    assert launch.params[:18] == struct.pack("<Qifh", x.data_ptr(), 300, 1.5, -3)
    assert [(a.address, a.nbytes) for a in launch.allocations] == [(x.data_ptr(), 1200)]
    assert (visit.launches, visit.reports) == ([launch], ["heard"])


def test_host_code_computes_on_the_emulator(host: HostExtension) -> None:
    x, ranks = torch.randn(300), torch.zeros(4, dtype=torch.int32)
    before = x.clone()
    with on(host, gpu.EmulatedDevice("sm_100a"), x) as visit:
        assert host.library.run_scale(ctypes.c_void_p(x.data_ptr()), 300, ctypes.c_float(1.5), -3, 512) == 0
        assert host.library.run_pairs(ctypes.c_void_p(ranks.data_ptr())) == 0
    torch.testing.assert_close(x, before * 1.5 - 3)
    assert ranks.tolist() == [0, 1, 2, 3]
    assert [report.warp_instructions > 0 for report in visit.reports] == [True, True]


def test_an_access_outside_its_memory_is_an_error(host: HostExtension) -> None:
    x = torch.randn(300)
    with pytest.raises(gpu.KernelError, match="past the end of 'tensor 0'"), on(host, gpu.EmulatedDevice(), x):
        host.library.run_scale(ctypes.c_void_p(x.data_ptr()), 301, ctypes.c_float(1), 0, 512)


def test_memory_from_cudamalloc_counts_and_is_set_and_copied(host: HostExtension) -> None:
    x, device = torch.zeros(4, dtype=torch.int32), Listener()
    with on(host, device):
        assert host.library.run_pairs(ctypes.c_void_p(x.data_ptr())) == 0
    (launch,) = device.heard
    assert launch.geometry.cluster == (2, 1, 1)  # from __cluster_dims__
    (pointer,) = struct.unpack("<Q", launch.params)
    assert [(a.address, a.nbytes) for a in launch.allocations] == [(pointer, 16)]
    assert x.tolist() == [0x07070707] * 4


def test_captured_launches_of_host_code_run_again_on_memory_that_it_has_freed(host: HostExtension) -> None:
    x = torch.zeros(4, dtype=torch.int32)

    def run() -> None:
        with host.on(gpu.EmulatedDevice("sm_100a")):
            assert host.library.run_pairs(ctypes.c_void_p(x.data_ptr())) == 0

    launches = gpu.capture(run)
    assert x.tolist() == [0, 1, 2, 3]
    assert [one.name.find("in_pairs") >= 0 for one in launches] == [True]
    assert launches[0].geometry.cluster == (2, 1, 1)
    session = launches[0].session()
    session.run()
    assert session.now == launches[0].report.warp_instructions == launches[0].run().warp_instructions


def test_a_cluster_asked_for_at_the_launch_is_checked(host: HostExtension) -> None:
    x, device = torch.zeros(8, dtype=torch.int32), Listener()
    with on(host, device, x):
        assert host.library.run_cluster(ctypes.c_void_p(x.data_ptr()), 2) == 0
        assert host.library.run_cluster(ctypes.c_void_p(x.data_ptr()), 3) == 9  # cudaErrorInvalidConfiguration
    assert device.heard[0].geometry.cluster == (2, 1, 1)
    with pytest.raises(gpu.LaunchError, match=r"cluster must be \(2, 1, 1\)"), on(host, device, x):
        host.library.run_cluster(ctypes.c_void_p(x.data_ptr()), 4)


def test_large_shared_memory_needs_the_opt_in(host: HostExtension) -> None:
    x, device = torch.zeros(1), Listener()
    host.library.last_words.restype = ctypes.c_char_p
    with on(host, device, x):
        refused = host.library.run_scale(ctypes.c_void_p(x.data_ptr()), 1, ctypes.c_float(1), 0, 100_000)
        assert refused == 1
        assert b"49152 are allowed until cudaFuncSetAttribute asks for more" in host.library.last_words(refused)
        assert host.library.allow_smem(232_449) == 1
        assert host.library.allow_smem(232_448) == 0
        assert host.library.run_scale(ctypes.c_void_p(x.data_ptr()), 1, ctypes.c_float(1), 0, 100_000) == 0
    assert device.heard[0].geometry.smem == 100_000


def test_tensor_maps_are_encoded_for_the_emulator(host: HostExtension) -> None:
    from sglab import _core

    x, device = torch.zeros(8, 64), Listener()
    with on(host, device, x):
        assert host.library.run_mapped(ctypes.c_void_p(x.data_ptr()), 32) == 0
        assert host.library.run_mapped(ctypes.c_void_p(x.data_ptr()), 64) == -2  # 256 bytes exceed the swizzle
    decoded = _core.tma.decode(device.heard[0].params[:128])
    assert (decoded["address"], decoded["global_dim"], decoded["box_dim"]) == (x.data_ptr(), [64, 8], [32, 8])


def test_host_code_sees_the_device(host: HostExtension) -> None:
    out = ctypes.create_string_buffer(300)
    with on(host, Listener()):
        host.library.describe(out)
    assert out.value == (
        b"listening sm_100a, 10.0, 148 = 148 SMs, 232448 = 232448 bytes, 1024 threads, grid 65535, clusters 1"
    )


def test_an_error_in_a_launch_is_reported_to_both_sides(host: HostExtension) -> None:
    x, device = torch.zeros(1), Listener()
    device.fault = gpu.KernelError("scale trapped")
    host.library.last_words.restype = ctypes.c_char_p
    with pytest.raises(gpu.KernelError, match="scale trapped"), on(host, device, x):
        failed = host.library.run_scale(ctypes.c_void_p(x.data_ptr()), 1, ctypes.c_float(1), 0, 0)
        assert failed == 719  # cudaErrorLaunchFailure
        assert host.library.last_words(failed) == b"KernelError: scale trapped"
        assert host.library.run_scale(ctypes.c_void_p(x.data_ptr()), 1, ctypes.c_float(1), 0, 0) == 719
    assert len(device.heard) == 1


def test_an_error_that_was_raised_is_none_of_the_next_visit(host: HostExtension) -> None:
    """cudaLaunchKernelExC returns it and nothing reads cudaGetLastError: what runs next has done no wrong."""
    x = torch.zeros(8, dtype=torch.int32)
    with pytest.raises(gpu.LaunchError, match="cluster must be"), on(host, Listener(), x):
        assert host.library.run_cluster(ctypes.c_void_p(x.data_ptr()), 4) == 719
    with on(host, Listener(), x):
        assert host.library.run_scale(ctypes.c_void_p(x.data_ptr()), 1, ctypes.c_float(1), 0, 0) == 0


def test_a_launch_without_a_device_is_refused(host: HostExtension) -> None:
    x = torch.zeros(1)
    host.library.last_words.restype = ctypes.c_char_p
    failed = host.library.run_scale(ctypes.c_void_p(x.data_ptr()), 1, ctypes.c_float(1), 0, 0)
    assert b"launched a kernel outside of" in host.library.last_words(failed)


PROGRAM = r"""
#include <cstdio>
#include <cuda_runtime.h>
__global__ void squares(int* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = i * i;
  if (i == 5) printf("thread %d says hello\n", i);
}
int main(int argc, char** argv) {
  const int n = 1000, launched = argc > 1 ? 2000 : n;
  int *x, host[n];
  cudaMalloc(&x, sizeof(host));
  squares<<<8, 256>>>(x, launched);
  const cudaError_t error = cudaDeviceSynchronize() ? cudaDeviceSynchronize() : cudaGetLastError();
  cudaMemcpy(host, x, sizeof(host), cudaMemcpyDeviceToHost);
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  printf("%s: %s, x[31] = %d\n", device.name, cudaGetErrorString(error), host[31]);
  return error;
}
"""


def test_the_interface_is_the_one_in_nvidias_headers(tmp_path: Path) -> None:
    if not nvcc_version(find_nvcc()).startswith("13."):
        pytest.skip("the interface is CUDA 13's")
    here = Path(__file__).parent
    command = [str(find_nvcc()), "-std=c++20", f"-I{here.parent.parent / 'csrc'}", "-c", str(here / "abi_check.cu")]
    subprocess.run([*command, "-o", str(tmp_path / "abi_check.o")], check=True)


def test_a_whole_program_runs_as_it_is(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "squares.cu").write_text(PROGRAM)
    shared = ["-cudart", "shared", "-gencode", "arch=compute_90,code=compute_90"]
    subprocess.run([str(find_nvcc()), "-lineinfo", *shared, "squares.cu", "-o", "squares"], cwd=tmp_path, check=True)
    ran = run_program([tmp_path / "squares"], arch="sm_90a", sms=3)
    assert ran.stdout == "thread 5 says hello\nemulated sm_90a, 3 SMs: no error, x[31] = 961\n"
    assert (ran.returncode, ran.stderr) == (0, "")
    ran = run_program([tmp_path / "squares", "too", "far"])
    assert ran.returncode == 719 % 256  # cudaErrorLaunchFailure, as far as an exit status holds it
    assert "squares.cu:6" in ran.stdout
    assert "past the end of 'cudaMalloc'" in ran.stdout


@pytest.mark.skipif(not ctypes.util.find_library("zstd"), reason="needs libzstd, to unpack what nvcc compresses")
def test_compressed_ptx_is_unpacked_and_machine_code_alone_is_refused(cache: Path, tmp_path: Path) -> None:
    def extension(*code: str) -> HostExtension:
        (tmp_path / "host.cu").write_text(SOURCE)
        made = tmp_path / f"{len(list(tmp_path.iterdir()))}.so"
        link = ["-shared", "-Xcompiler", "-fPIC", "-cudart", "none", f"-L{LIBRARY.parent}", "-lsglab_cudart"]
        command = [str(find_nvcc()), "-std=c++20", *code, "host.cu", "-o", str(made), *link]
        subprocess.run(command, cwd=tmp_path, check=True)
        return HostExtension(made)

    x, device = torch.zeros(1), Listener()
    compressed = extension("-gencode", "arch=compute_90,code=compute_90", "--compress-mode=size")
    with on(compressed, device, x):
        assert compressed.library.run_scale(ctypes.c_void_p(x.data_ptr()), 1, ctypes.c_float(1), 0, 0) == 0
    assert device.heard[0].kernel.module.target == "sm_90"
    machine_code = extension("-gencode", "arch=compute_90a,code=sm_90a")
    machine_code.library.last_words.restype = ctypes.c_char_p
    with on(machine_code, device, x):
        failed = machine_code.library.run_scale(ctypes.c_void_p(x.data_ptr()), 1, ctypes.c_float(1), 0, 0)
        assert b"only machine code; compile it with -gencode arch=compute_100a" in machine_code.library.last_words(
            failed
        )
