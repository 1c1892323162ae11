// What CUDA's samples ask of the runtime beside launches, a line for each.
#include <cooperative_groups.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <cassert>
#include <cstdio>

namespace cg = cooperative_groups;

__global__ void tiles(int* out) {
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int sum = threadIdx.x;
  for (int step = 4; step > 0; step /= 2) sum += tile.shfl_xor(sum, step);
  const auto same = cg::labeled_partition(cg::coalesced_threads(), threadIdx.x % 3);
  out[threadIdx.x] = sum * 100 + same.size();
}
__global__ void unequal(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = values[63 - threadIdx.x];  // no barrier between
}
__global__ void asserts(int value) { assert(value == 1); }
void called(cudaStream_t, cudaError_t status, void* data) { *static_cast<int*>(data) = status + 5; }

#define CHECK(call)                                                                        \
  if (const cudaError_t status = (call); status != cudaSuccess) {                          \
    std::printf("%s: %s\n", #call, cudaGetErrorString(status));                            \
    return 1;                                                                              \
  }

int main(int count, char**) {
  int* out;
  int host[32], word = 0;
  cudaMemPool_t pool;
  std::size_t limit;
  CHECK(cudaSetDeviceFlags(cudaDeviceScheduleSpin));
  CHECK(cudaProfilerStart());
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  CHECK(cudaDeviceSetLimit(cudaLimitMallocHeapSize, 1 << 20));
  CHECK(cudaDeviceGetLimit(&limit, cudaLimitMallocHeapSize));
  CHECK(cudaMallocManaged(&out, 64 * sizeof(int)));
  CHECK(cudaStreamAttachMemAsync(nullptr, out));
  tiles<<<1, 32>>>(out);
  CHECK(cudaStreamAddCallback(nullptr, called, &word, 0));
  CHECK(cudaMemcpy(host, out, sizeof host, cudaMemcpyDefault));
  std::printf("tiles %d %d %d, limit %zu, callback %d\n", host[0], host[8], host[31], limit, word);
  void* arguments[] = {&out};
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(tiles), 1, 32, arguments, 0, nullptr));
  unequal<<<1, 64>>>(out);
  CHECK(cudaProfilerStop());
  asserts<<<1, 1>>>(count + 1);
  std::printf("assert %d\n", static_cast<int>(cudaGetLastError()));
}
