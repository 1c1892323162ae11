// Lab 14: ten kernels. Mended: the model solution.
#include "address.cuh"
#include "barrier.cuh"
#include "cp_async.cuh"
#include "fence.cuh"

// out[i] = x[255 - i]; 256 threads.
extern "C" __global__ void reverse(const float* x, float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[255 - threadIdx.x];
}

// out[i] = 2 x[i], i < n.
extern "C" __global__ void double_it(const float* x, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * x[i];
}

// *out = log2 of the sum of 2^x, 32 of them; one warp.
extern "C" __global__ void lse(const float* x, float* out) {
  float m = x[threadIdx.x];
  for (int lanes = 16; lanes > 0; lanes /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, lanes));
  float d = exp2f(x[threadIdx.x] - m);
  for (int lanes = 16; lanes > 0; lanes /= 2) d += __shfl_xor_sync(~0u, d, lanes);
  if (threadIdx.x == 0) *out = m + log2f(d);
}

// Rows of o_a, lse_a, o_b, lse_b (base 2; -inf: saw no key): out is the merged o, 0 where none saw a key; 64 rows.
extern "C" __global__ void merge(const float4* x, float* out) {
  const float4 row = x[threadIdx.x];
  const float m = fmaxf(row.y, row.w);
  if (m == -INFINITY) {
    out[threadIdx.x] = 0;
    return;
  }
  const float a = exp2f(row.y - m), b = exp2f(row.w - m);
  out[threadIdx.x] = (a * row.x + b * row.z) / (a + b);
}

// out[token] = x of its page, pages[token / 8], and row, token % 8; two CTAs of 32 tokens.
extern "C" __global__ void paged(const float* x, const int* pages, float* out) {
  const int token = blockIdx.x * 32 + threadIdx.x;
  const int page = pages[token / 8];
  out[token] = x[page * 8 + token % 8];
}

// out[request] = sum of the request's lens[request] rows of x (3, 8, 32). Warp 0 loads a row, warp 1 sums it.
extern "C" __global__ void empty(const float* x, const int* lens, float* out) {
  __shared__ float row[8][32];
  __shared__ uint64_t full[8];
  const int lane = threadIdx.x % 32, rows = lens[blockIdx.x];
  if (threadIdx.x < 8) ptx::mbarrier_init(full[threadIdx.x], 32);
  __syncthreads();
  x += blockIdx.x * 256;
  if (threadIdx.x < 32) {
    for (int i = 0; i < rows; ++i) {
      row[i][lane] = x[i * 32 + lane];
      ptx::mbarrier_arrive(full[i]);
    }
  } else {
    float sum = 0;
    for (int i = 0; i < rows; ++i) {
      ptx::mbarrier_wait(full[i], 0);
      sum += row[i][lane];
    }
    out[blockIdx.x * 32 + lane] = sum;
  }
}

// out = sum of x's rows (tiles, 32) through a ring of two stages: warp 0 loads, warp 1 sums.
extern "C" __global__ void ring(const float* x, float* out, int tiles) {
  __shared__ float row[2][32];
  __shared__ uint64_t full[2], vacant[2];
  const int lane = threadIdx.x % 32;
  if (threadIdx.x < 2) ptx::mbarrier_init(full[threadIdx.x], 32), ptx::mbarrier_init(vacant[threadIdx.x], 32);
  __syncthreads();
  float sum = 0;
  for (int i = 0; i < tiles; ++i) {
    const int stage = i % 2, parity = i / 2 % 2;
    if (threadIdx.x < 32) {
      ptx::mbarrier_wait(vacant[stage], parity ^ 1);
      row[stage][lane] = x[i * 32 + lane];
      ptx::mbarrier_arrive(full[stage]);
    } else {
      ptx::mbarrier_wait(full[stage], parity);
      sum += row[stage][lane];
      ptx::mbarrier_arrive(vacant[stage]);
    }
  }
  if (threadIdx.x >= 32) out[lane] = sum;
}

// *out = sum of x's n <= 128 elements; 128 threads, of which the first 64 go on after the first step.
extern "C" __global__ void total(const float* x, float* out, int n) {
  __shared__ float s[128];
  const int t = threadIdx.x;
  s[t] = t < n ? x[t] : 0;
  __syncthreads();
  if (t >= 64) return;
  s[t] += s[t + 64];
  ptx::bar_sync(1, 64);  // those that go on
  if (t >= 32) return;
  float sum = s[t] + s[t + 32];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  if (t == 0) *out = sum;
}

// out[row][i] = x[row][127 - i], 4 rows of 128 floats; one warp, two rows in flight.
extern "C" __global__ void staged(const float* x, float* out) {
  __shared__ __align__(16) float row[2][128];
  const int lane = threadIdx.x;
  auto load = [&](int i) {
    if (i < 4) ptx::cp_async_16(ptx::smem_address(&row[i % 2][lane * 4]), x + i * 128 + lane * 4, 16);
    ptx::cp_async_commit_group();
  };
  load(0);
  for (int i = 0; i < 4; ++i) {
    load(i + 1);
    ptx::cp_async_wait_group<1>();
    __syncwarp();
    for (int at = lane; at < 128; at += 32) out[i * 128 + at] = row[i % 2][127 - at];
    __syncwarp();
  }
}

// out[i] = x[i]^2, 256 of them, stored by one bulk copy.
extern "C" __global__ void bulk(const float* x, float* out) {
  __shared__ __align__(128) float s[256];
  s[threadIdx.x] = x[threadIdx.x] * x[threadIdx.x];
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;" ::"l"(out), "r"(ptx::smem_address(s))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
  }
}
