// Lab 13. The model solution.
#include <cuda_fp16.h>

#include "address.cuh"
#include "fence.cuh"
#include "wgmma.cuh"

extern "C" __global__ void tile(const __half* a, const __half* b, float* d) {
  __shared__ __align__(1024) uint4 s[2][64][8];
  for (int i = threadIdx.x; i < 512; i += 128) {
    const int row = i / 8, chunk = i % 8;
    s[0][row][chunk ^ (row % 8)] = reinterpret_cast<const uint4*>(a)[i];
    s[1][row][chunk ^ (row % 8)] = reinterpret_cast<const uint4*>(b)[i];
  }
  ptx::fence_proxy_async();  // wgmma reads by the async proxy
  __syncthreads();
  float acc[32]{};
  ptx::wgmma_fence();
  for (int k = 0; k < 4; ++k) {
    const uint64_t left = ptx::smem_descriptor(ptx::smem_address(s[0]) + 32 * k, 0, 1024);
    const uint64_t right = ptx::smem_descriptor(ptx::smem_address(s[1]) + 32 * k, 0, 1024);
    ptx::wgmma_64x64(ptx::F16{}, acc, left, right, k > 0);
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
  ptx::registers_change(acc);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < 32; ++i) {
    const int row = 16 * warp + lane / 4 + 8 * (i / 2 % 2), column = 8 * (i / 4) + lane % 4 * 2 + i % 2;
    d[row * 64 + column] = acc[i];
  }
}
