// Kinds that meet in shared memory, at barriers, in shuffles or in atomics.
#include <cstdint>

#define KERNEL(threads) __global__ void __launch_bounds__(threads)

namespace {

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Most {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class Op>
__device__ float warp_all(float x, Op op) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) x = op(x, __shfl_xor_sync(~0u, x, distance));
  return x;
}

template <class Op>
__device__ float cta_all(float x, Op op, float* room) {
  x = warp_all(x, op);
  if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = x;
  __syncthreads();
  x = room[0];
  for (int i = 1; i < blockDim.x / 32; ++i) x = op(x, room[i]);
  __syncthreads();
  return x;
}

// Trips of reads that `ways` lanes ask of one bank.
template <int ways>
__device__ void conflicted(float* out, const float* in, int n) {
  __shared__ float room[4096];
  for (int i = threadIdx.x; i < 4096; i += 256) room[i] = in[i];
  __syncthreads();
  int at = (threadIdx.x * ways) % 4096;
  float sum = 0;
  for (int k = 0; k < n; ++k) {
    sum += room[at];
    at = (at + 32 * ways + 1) % 4096;
  }
  out[blockIdx.x * 256 + threadIdx.x] = sum;
}

}  // namespace

extern "C" {

// 4096 values per CTA: vectors, shuffles, one barrier.
KERNEL(256) reduce_shuffle(float* out, const float4* in, const float*, int) {
  __shared__ float room[8];
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float4 v = in[(blockIdx.x * 4 + k) * 256 + threadIdx.x];
    sum += v.x + v.y + v.z + v.w;
  }
  sum = cta_all(sum, Sum(), room);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

// 2048 values per CTA: a tree in shared memory with a barrier per level.
KERNEL(512) reduce_tree(float* out, const float* in, const float*, int) {
  __shared__ float room[512];
  const float* const own = in + blockIdx.x * 2048 + threadIdx.x;
  room[threadIdx.x] = own[0] + own[512] + own[1024] + own[1536];
  __syncthreads();
  for (int half = 256; half > 0; half /= 2) {
    if (threadIdx.x < half) room[threadIdx.x] += room[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = room[0];
}

// A warp's sum at a time into one word.
KERNEL(256) atomic_sum(float* out, const float* in, const float*, int) {
#pragma unroll 1
  for (int k = 0; k < 4; ++k) {
    const float sum = warp_all(in[(blockIdx.x * 4 + k) * 256 + threadIdx.x], Sum());
    if (threadIdx.x % 32 == 0) atomicAdd(out, sum);
  }
}

// Eight adds per thread to words anywhere.
KERNEL(256) atomic_scatter(int* out, const int* index, const int*, int) {
#pragma unroll
  for (int k = 0; k < 8; ++k) atomicAdd(out + index[(blockIdx.x * 8 + k) * 256 + threadIdx.x], 1);
}

// Prefix sums of 512 values: nine steps with two barriers each.
KERNEL(512) scan_steps(float* out, const float* in, const float*, int) {
  __shared__ float room[512];
  const int i = blockIdx.x * 512 + threadIdx.x;
  float own = in[i];
  room[threadIdx.x] = own;
  __syncthreads();
  for (int distance = 1; distance < 512; distance *= 2) {
    const float before = threadIdx.x >= distance ? room[threadIdx.x - distance] : 0.0f;
    __syncthreads();
    own += before;
    room[threadIdx.x] = own;
    __syncthreads();
  }
  out[i] = own;
}

// Prefix sums of 1024 values: four per thread, shuffles, one barrier.
KERNEL(256) scan_shuffle(float4* out, const float4* in, const float*, int) {
  __shared__ float room[8];
  const int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x % 32;
  float4 v = in[i];
  v.y += v.x, v.z += v.y, v.w += v.z;
  float sum = v.w;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const float before = __shfl_up_sync(~0u, sum, distance);
    if (lane >= distance) sum += before;
  }
  if (lane == 31) room[threadIdx.x / 32] = sum;
  __syncthreads();
  float base = sum - v.w;
  for (int k = 0; k < threadIdx.x / 32; ++k) base += room[k];
  out[i] = make_float4(v.x + base, v.y + base, v.z + base, v.w + base);
}

// 4096 bytes per CTA into 256 bins in shared memory, then into global ones.
KERNEL(256) histogram_shared(int* bins, const uint32_t* in, const int*, int) {
  __shared__ int own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const uint32_t word = in[(blockIdx.x * 4 + k) * 256 + threadIdx.x];
#pragma unroll
    for (int byte = 0; byte < 4; ++byte) atomicAdd(own + (word >> 8 * byte & 255), 1);
  }
  __syncthreads();
  atomicAdd(bins + threadIdx.x, own[threadIdx.x]);
}

// 1024 values per CTA straight into 4096 bins in global memory.
KERNEL(256) histogram_global(int* bins, const uint32_t* in, const int*, int) {
#pragma unroll
  for (int k = 0; k < 4; ++k) atomicAdd(bins + (in[(blockIdx.x * 4 + k) * 256 + threadIdx.x] & 4095), 1);
}

// 32 × 32 through shared memory, columns read from one bank.
KERNEL(256) transpose_conflicts(float* out, const float* in, const float*, int) {
  __shared__ float tile[32][32];
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
#pragma unroll
  for (int j = 0; j < 32; j += 8) tile[y + j][x] = in[blockIdx.x * 1024 + (y + j) * 32 + x];
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 32; j += 8) out[blockIdx.x * 1024 + (y + j) * 32 + x] = tile[x][y + j];
}

// 32 × 32 without shared memory: stores to a column.
KERNEL(256) transpose_stores(float* out, const float* in, const float*, int) {
  const int x = threadIdx.x % 32, y = threadIdx.x / 32, height = gridDim.x * 32;
#pragma unroll
  for (int j = 0; j < 32; j += 8)
    out[x * height + blockIdx.x * 32 + y + j] = in[blockIdx.x * 1024 + (y + j) * 32 + x];
}

KERNEL(256) bank_free(float* out, const float* in, const float*, int n) {
  conflicted<1>(out, in, n);
}
KERNEL(256) bank_4_ways(float* out, const float* in, const float*, int n) {
  conflicted<4>(out, in, n);
}
KERNEL(256) bank_32_ways(float* out, const float* in, const float*, int n) {
  conflicted<32>(out, in, n);
}

// 512 values sorted in shared memory by compare and exchange.
KERNEL(256) sort_shared(int* out, const int* in, const int*, int) {
  __shared__ int room[512];
  for (int i = threadIdx.x; i < 512; i += 256) room[i] = in[blockIdx.x * 512 + i];
  for (int size = 2; size <= 512; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      const int i = 2 * threadIdx.x - (threadIdx.x & (stride - 1)), j = i + stride;
      const int a = room[i], b = room[j];
      if ((a > b) == ((i & size) == 0)) room[i] = b, room[j] = a;
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < 512; i += 256) out[blockIdx.x * 512 + i] = room[i];
}

// 32 values per warp sorted by shuffles, four times.
KERNEL(128) sort_shuffle(int* out, const int* in, const int*, int) {
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int k = 0; k < 4; ++k) {
    const int i = (blockIdx.x * 4 + k) * 128 + threadIdx.x;
    int own = in[i];
#pragma unroll
    for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
      for (int stride = size / 2; stride > 0; stride /= 2) {
        const int other = __shfl_xor_sync(~0u, own, stride);
        const bool up = (lane & size) == 0, low = (lane & stride) == 0;
        own = up == low ? min(own, other) : max(own, other);
      }
    }
    out[i] = own;
  }
}

// A CTA per row of 2048.
KERNEL(256) softmax_ctas(float* out, const float* in, const float*, int) {
  __shared__ float room[8];
  float v[8], most = -INFINITY, sum = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) most = fmaxf(most, v[k] = in[blockIdx.x * 2048 + k * 256 + threadIdx.x]);
  most = cta_all(most, Most(), room);
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += v[k] = __expf(v[k] - most);
  const float by = 1.0f / cta_all(sum, Sum(), room);
#pragma unroll
  for (int k = 0; k < 8; ++k) out[blockIdx.x * 2048 + k * 256 + threadIdx.x] = v[k] * by;
}

// A warp per row of n, in one pass for the sum and one for the values.
KERNEL(256) softmax_warps(float* out, const float* in, const float*, int n) {
  const int lane = threadIdx.x % 32;
  const size_t row = size_t(blockIdx.x * 8 + threadIdx.x / 32) * n;
  float most = -INFINITY, sum = 0;
  for (int i = lane; i < n; i += 32) {
    const float v = in[row + i], now = fmaxf(most, v);
    sum = sum * __expf(most - now) + __expf(v - now);
    most = now;
  }
  const float all = warp_all(most, Most());
  sum = warp_all(sum * __expf(most - all), Sum());
  for (int i = lane; i < n; i += 32) out[row + i] = __expf(in[row + i] - all) / sum;
}

// A CTA per row of 1024.
KERNEL(128) layer_norm_ctas(float4* out, const float4* in, const float4* weight, int) {
  __shared__ float room[4];
  float4 v[2];
  float sum = 0, squares = 0;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    v[k] = in[blockIdx.x * 256 + k * 128 + threadIdx.x];
    sum += v[k].x + v[k].y + v[k].z + v[k].w;
  }
  const float mean = cta_all(sum, Sum(), room) / 1024;
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    v[k].x -= mean, v[k].y -= mean, v[k].z -= mean, v[k].w -= mean;
    squares += v[k].x * v[k].x + v[k].y * v[k].y + v[k].z * v[k].z + v[k].w * v[k].w;
  }
  const float by = rsqrtf(cta_all(squares, Sum(), room) / 1024 + 1e-5f);
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const float4 w = weight[k * 128 + threadIdx.x];
    out[blockIdx.x * 256 + k * 128 + threadIdx.x] =
        make_float4(v[k].x * by * w.x, v[k].y * by * w.y, v[k].z * by * w.z, v[k].w * by * w.w);
  }
}

// A warp per row of 256.
KERNEL(256) layer_norm_warps(float* out, const float* in, const float* weight, int) {
  const int lane = threadIdx.x % 32;
  const size_t row = size_t(blockIdx.x * 8 + threadIdx.x / 32) * 256;
  float v[8], sum = 0, squares = 0;
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += v[k] = in[row + k * 32 + lane];
  const float mean = warp_all(sum, Sum()) / 256;
#pragma unroll
  for (int k = 0; k < 8; ++k) v[k] -= mean, squares += v[k] * v[k];
  const float by = rsqrtf(warp_all(squares, Sum()) / 256 + 1e-5f);
#pragma unroll
  for (int k = 0; k < 8; ++k) out[row + k * 32 + lane] = v[k] * by * weight[k * 32 + lane];
}

}  // extern "C"
