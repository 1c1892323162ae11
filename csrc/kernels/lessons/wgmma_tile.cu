// A warpgroup's product on Hopper: A and B in shared memory, where descriptors say, D in registers.
//
//   D (64 × 64, float32) = A (64 × 16·steps, float16) · Bᵀ (64 × 16·steps)
#include <cstdint>

#include "../ptx/address.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/wgmma.cuh"

namespace {

constexpr int kThreads = 128, kImage = 32768;

}  // namespace

// image: 32 KB that go to shared memory as they are; a, b: descriptors whose addresses count from the image's
// start; d (128 threads, 32 registers).
extern "C" __global__ void __launch_bounds__(kThreads)
    wgmma_m64n64k16(const uint4* image, float* d, uint64_t a, uint64_t b, int steps) {
  __shared__ __align__(1024) uint4 smem[kImage / 16];
  for (int i = threadIdx.x; i < kImage / 16; i += kThreads) smem[i] = image[i];
  ptx::fence_proxy_async();  // the tensor core reads what threads wrote
  __syncthreads();

  const uint64_t base = ptx::smem_address(smem) >> 4;  // the address is a descriptor's lowest field
  constexpr uint64_t kStep = 32 >> 4;                  // 16 halves
  float sum[32] = {};
  ptx::wgmma_fence();
#pragma unroll 1
  for (int step = 0; step < steps; ++step)
    ptx::wgmma_64x64(ptx::F16{}, sum, base + a + step * kStep, base + b + step * kStep, step > 0);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  ptx::registers_change(sum);
  for (int i = 0; i < 32; ++i) d[32 * threadIdx.x + i] = sum[i];
}
