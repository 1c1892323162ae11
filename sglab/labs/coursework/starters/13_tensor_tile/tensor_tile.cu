// Lab 13: d = a bᵀ, all (64, 64) row-major, a and b float16, d float32. One CTA of 128 threads: a warpgroup.
#include <cuda_fp16.h>

#include "address.cuh"  // ptx::smem_address
#include "fence.cuh"    // ptx::fence_proxy_async
#include "wgmma.cuh"    // ptx::smem_descriptor, wgmma_fence, wgmma_64x64(ptx::F16{}, …), wgmma_commit, wgmma_wait<0>

extern "C" __global__ void tile(const __half* a, const __half* b, float* d) {
}
