// Kernels of driver.cpp, compiled to PTX.
#include <cuda.h>

__device__ int factor = 2;

extern "C" __global__ void scale(int* out, const int* in, int add) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * factor + add;
}

// One im2col copy of 8 pixels × 16 channels, from pixel (-1, -1) with the filter's tap (1, 1).
extern "C" __global__ void columns(const __grid_constant__ CUtensorMap map, float* out) {
  __shared__ alignas(128) float tile[128];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned tile_at = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  const unsigned barrier_at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) {
    asm volatile(
        "mbarrier.init.shared.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(barrier_at));
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" ::"r"(barrier_at));
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {0, %3, %3, 0}], [%2], {%4, %4};" ::"r"(tile_at),
        "l"(&map), "r"(barrier_at), "r"(-1), "h"(static_cast<short>(1))
        : "memory");
  }
  __syncthreads();
  unsigned done = 0;
  while (done == 0) {
    asm volatile(
        "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared.b64 p, [%1], 0;\n\tselp.u32 %0, 1, 0, p;\n\t}"
        : "=r"(done)
        : "r"(barrier_at)
        : "memory");
  }
  for (int i = threadIdx.x; i < 128; i += 32) out[i] = tile[i];
}
