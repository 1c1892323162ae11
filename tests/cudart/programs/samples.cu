// What CUDA's samples ask of the runtime beside launches, a line for each.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
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
__global__ void whole_grid(int* out) {
  const auto grid = cg::this_grid();
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x == 0) atomicAdd(out, 1);
    grid.sync();
    if (out[0] != (round + 1) * gridDim.x) out[1] = round + 1;
    grid.sync();
  }
}
__global__ void several_warps(int* out) {
  const auto tile = cg::tiled_partition<64>(cg::this_thread_block());
  const int sum = cg::reduce(tile, static_cast<int>(threadIdx.x), cg::plus<int>());
  if (tile.thread_rank() == 0) out[threadIdx.x / 64] = sum;
}
__global__ void unequal(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = values[63 - threadIdx.x];  // no barrier between
}
__global__ void asserts(int value) {
  assert(value == 1);
}
void called(cudaStream_t, cudaError_t status, void* data) {
  *static_cast<int*>(data) = status + 5;
}

#define CHECK(call)                                               \
  if (const cudaError_t status = (call); status != cudaSuccess) { \
    std::printf("%s: %s\n", #call, cudaGetErrorString(status));   \
    return 1;                                                     \
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
  CHECK(cudaMemset(out, 0, 8));
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(whole_grid), 6, 64, arguments, 0, nullptr));
  std::printf("grid %d %d, ", out[0], out[1]);
  int per_sm, sms;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, whole_grid, 1024, 0));
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
  if (sms < 4) {  // a grid of many takes long while it is watched
    CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(whole_grid), per_sm * sms, 1024, arguments, 0,
                                      nullptr));
  }
  const cudaError_t many = cudaLaunchCooperativeKernel(reinterpret_cast<void*>(whole_grid), per_sm * sms + 1,
                                                       1024, arguments, 0, nullptr);
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute together = {};
  together.id = cudaLaunchAttributeCooperative;
  together.val.cooperative = 1;
  config.gridDim = 4000, config.blockDim = 1024, config.attrs = &together, config.numAttrs = 1;
  const cudaError_t more = cudaLaunchKernelEx(&config, whole_grid, out);
  std::printf("%d of %d SMs, one more %s %d, last %d, ", per_sm, sms, cudaGetErrorName(many), more == many,
              static_cast<int>(cudaGetLastError()));
  several_warps<<<1, 128>>>(out);
  CHECK(cudaGetLastError());
  std::printf("tiles of two warps %d %d\n", out[0], out[1]);
  unequal<<<1, 64>>>(out);
  CHECK(cudaProfilerStop());
  asserts<<<1, 1>>>(count + 1);
  std::printf("assert %d", static_cast<int>(cudaGetLastError()));
  std::printf(", waited %d %d", static_cast<int>(cudaDeviceSynchronize()),
              static_cast<int>(cudaStreamSynchronize(0)));
  asserts<<<1, 1>>>(1);
  std::printf(", launched %d", static_cast<int>(cudaGetLastError()));
  std::printf(", copied %d\n", static_cast<int>(cudaMemcpy(out, out + 64, 4, cudaMemcpyDefault)));
}
