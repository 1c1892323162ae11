// Kernels of driver.cpp, compiled to PTX.
#include <cuda.h>

__device__ int factor = 2;

extern "C" __global__ void scale(int* out, const int* in, int add) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = in[i] * factor + add;
}

// One copy of `pixels` × 16 channels into shared memory, and from there to `out`.
template <class Copy>
__device__ void copied(float* out, int pixels, Copy copy) {
  __shared__ alignas(1024) float tile[256];
  __shared__ alignas(8) unsigned long long barrier;
  const unsigned tile_at = static_cast<unsigned>(__cvta_generic_to_shared(tile));
  const unsigned barrier_at = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  if (threadIdx.x == 0) {
    asm volatile(
        "mbarrier.init.shared.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(barrier_at));
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier_at), "r"(64 * pixels));
    copy(tile_at, barrier_at);
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
  for (int i = threadIdx.x; i < 16 * pixels; i += 32) out[i] = tile[i];
}

// im2col: 8 pixels from pixel (-1, -1) with the filter's tap (1, 1).
extern "C" __global__ void columns(const __grid_constant__ CUtensorMap map, float* out) {
  copied(out, 8, [&](unsigned tile, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
        "[%0], [%1, {0, %3, %3, 0}], [%2], {%4, %4};" ::"r"(tile),
        "l"(&map), "r"(barrier), "r"(-1), "h"(static_cast<short>(1))
        : "memory");
  });
}

// im2col::w: what the map says from W = -1 of row 1, moved by one, and two pixels more.
extern "C" __global__ void wide_columns(const __grid_constant__ CUtensorMap map, float* out) {
  copied(out, 10, [&](unsigned tile, unsigned barrier) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cta.global.im2col::w.mbarrier::complete_tx::bytes "
        "[%0], [%1, {0, %3, 1, 0}], [%2], {%4, %5};" ::"r"(tile),
        "l"(&map), "r"(barrier), "r"(-1), "h"(static_cast<short>(2)), "h"(static_cast<short>(1))
        : "memory");
  });
}
