// Five kernels for the notebook "Find the bug". Each does what its comment says, nearly: each has one bug.
#include <cstdint>

#include "../ptx/address.cuh"
#include "../ptx/barrier.cuh"

// out[row] = sum of a row of x (rows, 128). A CTA of 128 threads for each row.
extern "C" __global__ void sum_row(const float* x, float* out) {
  __shared__ float part[4];
  float sum = x[blockIdx.x * 128 + threadIdx.x];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
  if (threadIdx.x == 0) out[blockIdx.x] = part[0] + part[1] + part[2] + part[3];
}

// out = mean of x's rows (n, 32). One warp; tiles of 8 rows pass through shared memory.
extern "C" __global__ void mean_rows(const float* x, float* out, int n) {
  __shared__ float tile[8][32];
  const int lane = threadIdx.x;
  float sum = 0;
  for (int first = 0; first < n; first += 8) {
    for (int row = 0; row < 8; ++row)
      if (first + row < n) tile[row][lane] = x[(first + row) * 32 + lane];
    __syncwarp();
    for (int row = 0; row < 8; ++row) sum += tile[row][lane];
    __syncwarp();
  }
  out[lane] = sum / n;
}

// *lse = natural logarithm of the sum of e^(scale · s), over 32 scores. One warp.
extern "C" __global__ void lse_of(const float* s, float scale, float* lse) {
  float m = scale * s[threadIdx.x];
  for (int step = 16; step > 0; step /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, step));
  float sum = expf(scale * s[threadIdx.x] - m);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x == 0) *lse = logf(sum) + scale * m;
}

// out = sum of x's rows (tiles, 32), through two buffers: warp 0 loads, warp 1 adds.
extern "C" __global__ void ring(const float* x, float* out, int tiles) {
  __shared__ float row[2][32];
  __shared__ uint64_t full[2], empty[2];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 2) {
    ptx::mbarrier_init(full[threadIdx.x], 32);
    ptx::mbarrier_init(empty[threadIdx.x], 32);
  }
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < tiles; ++i) {
    const int stage = i % 2, parity = i / 2 % 2;
    if (threadIdx.x < 32) {
      ptx::mbarrier_wait(empty[stage], parity ^ 1);
      row[stage][lane] = x[i * 32 + lane];
      ptx::mbarrier_arrive(full[stage]);
    } else {
      ptx::mbarrier_wait(full[stage], parity);
      ptx::mbarrier_arrive(empty[stage]);
      sum += row[stage][lane];
    }
  }
  if (threadIdx.x >= 32) out[lane] = sum;
}

// out[i] = x[i] + 1, 256 of them: computed into shared memory, stored by one bulk copy.
extern "C" __global__ void plus_one(const float* x, float* out) {
  __shared__ __align__(128) float tile[256];
  tile[threadIdx.x] = x[threadIdx.x] + 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    const uint32_t from = ptx::smem_address(tile);
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(out), "r"(from)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}
