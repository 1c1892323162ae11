// Lab 11b: the same as given_map.cu, as a pipeline: warp 0 loads tiles with TMA, four warps sum them.
// x (tiles * 16, 64) float32, boxes of 16 rows (4096 bytes); one CTA of 160 threads.
#include <cuda.h>

#include "barrier.cuh"  // ptx::mbarrier_init, mbarrier_arrive, mbarrier_arrive_expect_tx, mbarrier_wait
#include "fence.cuh"    // ptx::fence_mbarrier_init
#include "tma.cuh"      // ptx::tma_load_2d

extern "C" __global__ void sum_columns(const __grid_constant__ CUtensorMap x, float* out, int tiles) {
}
