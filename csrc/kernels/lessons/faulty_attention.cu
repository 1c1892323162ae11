// Five kernels for the notebook "Bugs of attention kernels": parts of decode kernels, cut down to what
// carries the bug. Each does what its comment says, nearly: each has one bug.
#include <cuda.h>

#include <cstdint>

#include "../ptx/address.cuh"
#include "../ptx/barrier.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/tma.cuh"
#include "../ptx/wgmma.cuh"

// out[r] = sum of request r's rows of v (rows, 32): those from indptr[r] up to indptr[r + 1]. One CTA takes
// all requests, one after the other, through two buffers: warp 0 loads, warp 1 adds.
extern "C" __global__ void persistent(const float* v, const int* indptr, float* out, int requests) {
  __shared__ float row[2][32];
  __shared__ uint64_t full[2], empty[2];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 2) {
    ptx::mbarrier_init(full[threadIdx.x], 32);
    ptx::mbarrier_init(empty[threadIdx.x], 32);
  }
  __syncthreads();
  for (int r = 0; r < requests; ++r) {
    const int first = indptr[r], rows = indptr[r + 1] - first;
    float sum = 0;
    for (int i = 0; i < rows; ++i) {
      const int stage = i % 2, parity = i / 2 % 2;
      if (threadIdx.x < 32) {
        ptx::mbarrier_wait(empty[stage], parity ^ 1);
        row[stage][lane] = v[(first + i) * 32 + lane];
        ptx::mbarrier_arrive(full[stage]);
      } else {
        ptx::mbarrier_wait(full[stage], parity);
        sum += row[stage][lane];
        ptx::mbarrier_arrive(empty[stage]);
      }
    }
    if (threadIdx.x >= 32) out[r * 32 + lane] = sum;
  }
}

// out[r] = sum of request r's lens[r] tokens of kv (pages, 4, 32): token t is in page table[r][t / 4], at
// place t % 4. One warp takes all requests; it looks a page up once for its four tokens.
extern "C" __global__ void paged_sum(const float* kv, const int* table, const int* lens, float* out,
                                     int requests, int width) {
  const int lane = threadIdx.x;
  int page = 0, held = -1;
  for (int r = 0; r < requests; ++r) {
    float sum = 0;
    for (int t = 0; t < lens[r]; ++t) {
      if (t / 4 != held) {
        held = t / 4;
        page = table[r * width + held];
      }
      sum += kv[(page * 4 + t % 4) * 32 + lane];
    }
    out[r * 32 + lane] = sum;
  }
}

// lse[r] = log2 of the sum of 2^s over request r's scores: those from indptr[r] up to indptr[r + 1], at least
// one. A CTA takes a request, its four warps a quarter each; warp 0 merges their parts.
extern "C" __global__ void split_lse(const float* s, const int* indptr, float* lse) {
  __shared__ float part_m[4], part_d[4];
  __shared__ uint64_t ready;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) ptx::mbarrier_init(ready, 4);
  __syncthreads();
  const int begin = indptr[blockIdx.x], end = indptr[blockIdx.x + 1], share = (end - begin + 3) / 4;
  const int first = begin + warp * share, last = min(first + share, end);
  if (first >= last) return;
  float m = -INFINITY, d = 0;
  for (int i = first + lane; i < last; i += 32) m = fmaxf(m, s[i]);
  for (int step = 16; step > 0; step /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, step));
  for (int i = first + lane; i < last; i += 32) d += exp2f(s[i] - m);
  for (int step = 16; step > 0; step /= 2) d += __shfl_xor_sync(~0u, d, step);
  if (lane == 0) {
    part_m[warp] = m, part_d[warp] = d;
    ptx::mbarrier_arrive(ready);
  }
  if (threadIdx.x == 0) {
    ptx::mbarrier_wait(ready, 0);
    for (int w = 1; w < 4; ++w) m = fmaxf(m, part_m[w]);
    d = 0;
    for (int w = 0; w < 4; ++w) d += part_d[w] * exp2f(part_m[w] - m);
    lse[blockIdx.x] = m + log2f(d);
  }
}

// out[r] (32) = attention over all of request r's keys, from the partials o[r] (2, 32) and lse[r] (2) of its
// two splits; LSE in base 2, -inf for a split without keys. A warp takes a request.
extern "C" __global__ void merge_states(const float* o, const float* lse, float* out) {
  const int lane = threadIdx.x;
  o += blockIdx.x * 64, lse += blockIdx.x * 2, out += blockIdx.x * 32;
  const float m = fmaxf(lse[0], lse[1]);
  const float a = __expf(lse[0] - m), b = __expf(lse[1] - m);
  out[lane] = (a * o[lane] + b * o[32 + lane]) / (a + b);
}

// out[r] (64 queries, 64 dims) = p[r] (64 queries, keys) · v[r]ᵀ (64 dims, keys), float16 with float32 sums,
// in tiles of 64 keys. A CTA takes a request: warp 4 loads tiles into two stages, warps 0 to 3 multiply them.
extern "C" __global__ void __launch_bounds__(160)
    product(const __grid_constant__ CUtensorMap p, const __grid_constant__ CUtensorMap v, const int* lens,
            float* out) {
  constexpr int kTile = 64 * 64 * 2;
  __shared__ __align__(1024) uint8_t left[2][kTile], right[2][kTile];
  __shared__ uint64_t full[2], empty[2];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, tiles = (lens[blockIdx.x] + 63) / 64;
  if (threadIdx.x < 2) {
    ptx::mbarrier_init(full[threadIdx.x], 1);
    ptx::mbarrier_init(empty[threadIdx.x], 128);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (warp == 4) {
    if (lane > 0) return;
#pragma unroll 1
    for (int i = 0; i < tiles; ++i) {
      const int stage = i % 2, parity = i / 2 % 2;
      ptx::mbarrier_wait(empty[stage], parity ^ 1);
      ptx::mbarrier_arrive_expect_tx(full[stage], 2 * kTile);
      ptx::tma_load_2d(left[stage], &p, 64 * i, 64 * blockIdx.x, full[stage]);
      ptx::tma_load_2d(right[stage], &v, 64 * i, 64 * blockIdx.x, full[stage]);
    }
    return;
  }
  float sum[32] = {};
#pragma unroll 1
  for (int i = 0; i < tiles; ++i) {
    const int stage = i % 2, parity = i / 2 % 2;
    ptx::mbarrier_wait(full[stage], parity);
    const uint64_t a = ptx::smem_descriptor(ptx::smem_address(left[stage]), 0, 1024);
    const uint64_t b = ptx::smem_descriptor(ptx::smem_address(right[stage]), 0, 1024);
    ptx::wgmma_fence();
    for (int k = 0; k < 4; ++k) ptx::wgmma_64x64(ptx::F16{}, sum, a + 2 * k, b + 2 * k, true);
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    ptx::mbarrier_arrive(empty[stage]);
  }
  ptx::wgmma_wait<0>();
  ptx::registers_change(sum);
  for (int i = 0; i < 32; ++i) {
    const int y = warp * 16 + i / 2 % 2 * 8 + lane / 4, x = i / 4 * 8 + lane % 4 * 2 + i % 2;
    out[(blockIdx.x * 64 + y) * 64 + x] = sum[i];
  }
}
