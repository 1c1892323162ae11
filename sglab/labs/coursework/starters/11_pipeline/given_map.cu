// The kernel to beat: one stage, which is loaded, waited for and summed before the next tile is asked for.
// out[column] += sum over rows of x[row][column]; x (tiles * 16, 64), boxes of 16 rows; one CTA of 160 threads.
#include <cuda.h>

#include "barrier.cuh"
#include "fence.cuh"
#include "tma.cuh"

extern "C" __global__ void sum_columns(const __grid_constant__ CUtensorMap x, float* out, int tiles) {
  __shared__ __align__(128) float tile[16][64];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) ptx::mbarrier_init(full, 1), ptx::fence_mbarrier_init();
  __syncthreads();
  const int thread = threadIdx.x - 32, column = thread % 64, half = thread / 64;
  float sum = 0;
  for (int i = 0; i < tiles; ++i) {
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(full, sizeof tile);
      ptx::tma_load_2d(tile, &x, 0, i * 16, full);
    }
    if (thread >= 0) {
      ptx::mbarrier_wait(full, i & 1);
      for (int row = half; row < 16; row += 2) sum += tile[row][column];
    }
    __syncthreads();
  }
  if (thread >= 0) atomicAdd(&out[column], sum);
}
