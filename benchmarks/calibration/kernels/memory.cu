// Kinds that wait for global memory: gathers, products with a vector, stencils, hash tables, chases.
// Every kernel does the same work per CTA; `n` is the length that its comment names.
#include <cuda_bf16.h>

#include <cstdint>

#define KERNEL(threads) __global__ void __launch_bounds__(threads)

namespace {

__device__ float warp_sum(float x) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(~0u, x, distance);
  return x;
}

__device__ uint32_t hashed(uint32_t key) {
  key *= 0x9e3779b1u;
  return key ^ key >> 15;
}

}  // namespace

extern "C" {

// Eight words per thread from anywhere in the table.
KERNEL(256) gather_words(float* out, const float* table, const int* index, int) {
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int i = (blockIdx.x * 8 + k) * 256 + threadIdx.x;
    out[i] = table[index[i]];
  }
}

// A warp copies rows of 128 bytes, eight of them.
KERNEL(256) gather_rows(float* out, const float* table, const int* index, int) {
  const int lane = threadIdx.x % 32, warp = blockIdx.x * 8 + threadIdx.x / 32;
#pragma unroll 4
  for (int k = 0; k < 8; ++k) {
    const int row = warp * 8 + k;
    out[row * 32 + lane] = table[index[row] * 32 + lane];
  }
}

// A warp per row of n floats, in vectors of four.
KERNEL(256) gemv_rows(float* y, const float4* a, const float4* x, int n) {
  const int lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32;
  float sum = 0;
  for (int k = lane; k < n / 4; k += 32) {
    const float4 p = a[size_t(row) * (n / 4) + k], q = x[k];
    sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
  }
  sum = warp_sum(sum);
  if (lane == 0) y[row] = sum;
}

// A thread per row of a matrix stored by columns, n of them.
KERNEL(256) gemv_columns(float* y, const float* a, const float* x, int n) {
  const int rows = gridDim.x * 256, row = blockIdx.x * 256 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum = fmaf(a[size_t(k) * rows + row], x[k], sum);
  y[row] = sum;
}

// CSR, a thread per row of 0 to 15 elements.
KERNEL(128)
spmv_threads(float* y, const int* first, const int* column, const float* value, const float* x, int) {
  const int row = blockIdx.x * 128 + threadIdx.x;
  float sum = 0;
  for (int i = first[row]; i < first[row + 1]; ++i) sum = fmaf(value[i], x[column[i]], sum);
  y[row] = sum;
}

// CSR, a warp per row.
KERNEL(256)
spmv_warps(float* y, const int* first, const int* column, const float* value, const float* x, int) {
  const int lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32;
  float sum = 0;
  for (int i = first[row] + lane; i < first[row + 1]; i += 32) sum = fmaf(value[i], x[column[i]], sum);
  sum = warp_sum(sum);
  if (lane == 0) y[row] = sum;
}

// Seven points on a line, through shared memory; 1024 of them per CTA.
KERNEL(256) stencil_line(float* out, const float* in, const float*, int) {
  __shared__ float line[1024 + 6];
  const float* const from = in + blockIdx.x * 1024;
  for (int i = threadIdx.x; i < 1030; i += 256) line[i] = from[i];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = k * 256 + threadIdx.x;
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 7; ++j) sum = fmaf(line[i + j], 0.1f + 0.05f * j, sum);
    out[blockIdx.x * 1024 + i] = sum;
  }
}

// Five points of a plane of 256 columns, from global memory; eight rows per CTA.
KERNEL(256) stencil_plane(float* out, const float* in, const float*, int) {
  const int x = threadIdx.x, left = x > 0 ? x - 1 : 0, right = x < 255 ? x + 1 : 255;
#pragma unroll 2
  for (int k = 0; k < 8; ++k) {
    const float* const row = in + (blockIdx.x * 8 + k) * 256;
    out[(blockIdx.x * 8 + k) * 256 + x] =
        0.5f * row[256 + x] + 0.125f * (row[x] + row[512 + x] + row[256 + left] + row[256 + right]);
  }
}

// Four keys per thread looked up in a table of n slots with linear probing; an empty slot is 0.
KERNEL(256) hash_find(int* out, const uint32_t* keys, const uint32_t* table, int n) {
#pragma unroll 1
  for (int k = 0; k < 4; ++k) {
    const int i = (blockIdx.x * 4 + k) * 256 + threadIdx.x;
    const uint32_t key = keys[i];
    uint32_t slot = hashed(key) & (n - 1), found = table[slot];
    while (found != key && found != 0) {
      slot = (slot + 1) & (n - 1);
      found = table[slot];
    }
    out[i] = found == key ? static_cast<int>(slot) : -1;
  }
}

// The same, counting how often each slot was found.
KERNEL(256) hash_count(int* counts, const uint32_t* keys, const uint32_t* table, int n) {
#pragma unroll 1
  for (int k = 0; k < 4; ++k) {
    const uint32_t key = keys[(blockIdx.x * 4 + k) * 256 + threadIdx.x];
    uint32_t slot = hashed(key) & (n - 1), found = table[slot];
    while (found != key && found != 0) {
      slot = (slot + 1) & (n - 1);
      found = table[slot];
    }
    if (found == key) atomicAdd(counts + slot, 1);
  }
}

// A dependent chain of n loads from L2 per warp.
KERNEL(32) chase_l2(int* out, const int* next, const int*, int n) {
  int at = blockIdx.x * 97;
  for (int k = 0; k < n; ++k) at = __ldcg(next + at);
  if (threadIdx.x == 0) out[blockIdx.x] = at;
}

// n loads, a chain per thread, scattered over what L1 holds.
KERNEL(64) chase_l1(int* out, const int* next, const int*, int n) {
  int at = threadIdx.x * 61;
  for (int k = 0; k < n; ++k) at = next[at];
  out[blockIdx.x * 64 + threadIdx.x] = at;
}

// n loads, a chain per thread, scattered over shared memory.
KERNEL(64) chase_shared(int* out, const int* next, const int*, int n) {
  __shared__ int own[4096];
  for (int i = threadIdx.x; i < 4096; i += 64) own[i] = next[i];
  __syncthreads();
  int at = threadIdx.x * 61;
  for (int k = 0; k < n; ++k) at = own[at];
  out[blockIdx.x * 64 + threadIdx.x] = at;
}

// 16 values per thread, four at a time.
KERNEL(128) gelu(float4* out, const float4* in, const float4*, int) {
  const auto of = [](float x) { return x / (1.0f + __expf(-1.5957691f * (x + 0.044715f * x * x * x))); };
#pragma unroll 1
  for (int k = 0; k < 4; ++k) {
    const int i = (blockIdx.x * 4 + k) * 128 + threadIdx.x;
    const float4 v = in[i];
    out[i] = make_float4(of(v.x), of(v.y), of(v.z), of(v.w));
  }
}

// Pairs of bf16, one at a time: 8 per thread.
KERNEL(256) bias_relu(__nv_bfloat162* out, const __nv_bfloat162* in, const __nv_bfloat162* bias, int) {
  const __nv_bfloat162 zero = __float2bfloat162_rn(0.0f), own = bias[threadIdx.x];
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int i = (blockIdx.x * 8 + k) * 256 + threadIdx.x;
    out[i] = __hmax2(__hadd2(in[i], own), zero);
  }
}

}  // extern "C"
