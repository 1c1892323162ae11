// Kinds that compute in registers: n bodies, divisions, transcendental functions, doubles, divergence, bits.
#include <cstdint>

#define KERNEL(threads) __global__ void __launch_bounds__(threads)

namespace {

__device__ void attract(float4& force, float4 own, float4 other) {
  const float x = other.x - own.x, y = other.y - own.y, z = other.z - own.z;
  const float inverse = rsqrtf(x * x + y * y + z * z + 1e-4f);
  const float pull = other.w * inverse * inverse * inverse;
  force.x = fmaf(x, pull, force.x), force.y = fmaf(y, pull, force.y), force.z = fmaf(z, pull, force.z);
}

}  // namespace

extern "C" {

// A thread per body, n others from shared memory, 128 at a time.
KERNEL(128) bodies_shared(float4* out, const float4* in, const float4*, int n) {
  __shared__ float4 tile[128];
  const float4 own = in[blockIdx.x * 128 + threadIdx.x];
  float4 force{};
  for (int first = 0; first < n; first += 128) {
    tile[threadIdx.x] = in[first + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int k = 0; k < 128; ++k) attract(force, own, tile[k]);
    __syncthreads();
  }
  out[blockIdx.x * 128 + threadIdx.x] = force;
}

// The same, others by shuffles.
KERNEL(128) bodies_shuffle(float4* out, const float4* in, const float4*, int n) {
  const float4 own = in[blockIdx.x * 128 + threadIdx.x];
  float4 force{};
  for (int first = 0; first < n; first += 32) {
    const float4 one = in[first + threadIdx.x % 32];
#pragma unroll 8
    for (int k = 0; k < 32; ++k) {
      const float4 other{__shfl_sync(~0u, one.x, k), __shfl_sync(~0u, one.y, k), __shfl_sync(~0u, one.z, k),
                         __shfl_sync(~0u, one.w, k)};
      attract(force, own, other);
    }
  }
  out[blockIdx.x * 128 + threadIdx.x] = force;
}

// n divisions as IEEE has them, two chains per thread.
KERNEL(256) divide_float(float* out, const float* in, const float*, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float x = in[i], y = x + 1.5f;
  for (int k = 0; k < n; ++k) {
    x = (x + 3.0f) / (y + 1.25f);
    y = (y + 2.0f) / (x + 1.75f);
  }
  out[i] = x + y;
}

// n divisions and remainders of integers by what is not known before.
KERNEL(256) divide_integer(uint32_t* out, const uint32_t* in, const float*, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  uint32_t x = in[i] | 1, y = 0;
  for (int k = 0; k < n; ++k) {
    y += (x * 2654435761u) / (y % 1000u + 7u);
    x = (x + y) % (x % 911u + 13u) + 1u;
  }
  out[i] = x ^ y;
}

// n steps of sine, exponential and logarithm as the special-function unit has them.
KERNEL(256) special_functions(float* out, const float* in, const float*, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float x = in[i], y = x;
  for (int k = 0; k < n; ++k) {
    x = __sinf(x) + 1.5f;
    y = __expf(-fabsf(y)) + __log2f(x);
  }
  out[i] = x + y;
}

// n steps of functions that are code: power, exact exponential, tangent.
KERNEL(256) exact_functions(float* out, const float* in, const float*, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  float x = fabsf(in[i]) + 0.5f, y = 0;
  for (int k = 0; k < n; ++k) {
    y += tanhf(x) + expf(-x);
    x = powf(x + 0.25f, 0.75f) + 0.125f;
  }
  out[i] = x + y;
}

// n steps of a polynomial in doubles, two chains.
KERNEL(128) double_polynomial(double* out, const double* in, const double*, int n) {
  const int i = blockIdx.x * 128 + threadIdx.x;
  double x = in[i], y = x * 0.5;
  for (int k = 0; k < n; ++k) {
    x = fma(fma(x, 0.25, 0.125), x, -0.0625);
    y = fma(fma(y, -0.25, 0.5), y, 0.03125);
  }
  out[i] = x + y;
}

// A sum of eight products of doubles per thread, and a tree of shuffles.
KERNEL(256) double_dot(double* out, const double* a, const double* b, int) {
  double sum = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int i = (blockIdx.x * 4 + k) * 256 + threadIdx.x;
    sum = fma(a[i], b[i], sum);
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (threadIdx.x % 32 == 0) out[blockIdx.x * 8 + threadIdx.x / 32] = sum;
}

// Up to n steps per point of the Mandelbrot set, 16 × 16 points per CTA of a plane 16 CTAs wide.
KERNEL(256) mandelbrot(int* out, const float*, const float*, int n) {
  const int i = blockIdx.x % 16 * 16 + threadIdx.x % 16, j = blockIdx.x / 16 * 16 + threadIdx.x / 16;
  const float x = -2.0f + 2.6f * i / 256, y = -1.2f + 2.4f * (j % 256) / 256;
  float a = 0, b = 0;
  int k = 0;
  while (k < n && a * a + b * b < 4.0f) {
    const float next = a * a - b * b + x;
    b = 2 * a * b + y;
    a = next;
    ++k;
  }
  out[blockIdx.x * 256 + threadIdx.x] = k;
}

// Steps until 3 x + 1 comes to 1, at most n.
KERNEL(256) collatz(int* out, const float*, const float*, int n) {
  uint32_t x = (blockIdx.x * 256 + threadIdx.x) % 8192 + 1;
  int k = 0;
  while (x != 1 && k < n) {
    x = x & 1 ? 3 * x + 1 : x / 2;
    ++k;
  }
  out[blockIdx.x * 256 + threadIdx.x] = k;
}

// n steps of shifts, logic, counts and reversals.
KERNEL(256) bits_mix(uint32_t* out, const uint32_t* in, const float*, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  uint32_t x = in[i], y = ~x, count = 0;
#pragma unroll 4
  for (int k = 0; k < n; ++k) {
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    y = __funnelshift_l(y, x, 7) ^ (x & y);
    count += __popc(x) + __clz(y | 1) + (__brev(y) & 3);
  }
  out[i] = x + y + count;
}

// A checksum of 16 words per thread, byte by byte by a table in shared memory.
KERNEL(128) checksum_table(uint32_t* out, const uint4* in, const uint32_t* table, int) {
  __shared__ uint32_t own[256];
  own[threadIdx.x] = table[threadIdx.x], own[threadIdx.x + 128] = table[threadIdx.x + 128];
  __syncthreads();
  uint32_t sum = ~0u;
#pragma unroll 1
  for (int k = 0; k < 4; ++k) {
    const uint4 v = in[(blockIdx.x * 4 + k) * 128 + threadIdx.x];
    const uint32_t words[] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (uint32_t word : words) {
#pragma unroll
      for (int byte = 0; byte < 4; ++byte) sum = own[(sum ^ word >> 8 * byte) & 255] ^ sum >> 8;
    }
  }
  out[blockIdx.x * 128 + threadIdx.x] = ~sum;
}

}  // extern "C"
