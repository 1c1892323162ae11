// Portable kernels: every target compiles this file.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstdio>

extern "C" __global__ void vector_add(const float* x, const float* y, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = x[i] + y[i];
}

extern "C" __global__ void vector_add_h2(const __half2* x, const __half2* y, __half2* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __hadd2(x[i], __hmul2(y[i], __float2half2_rn(0.5f)));
}

extern "C" __global__ void vector_add_bf16(const __nv_bfloat16* x, const __nv_bfloat16* y, __nv_bfloat16* out,
                                           int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = __float2bfloat16(__bfloat162float(x[i]) + __bfloat162float(y[i]));
}

// The ALU loop: integer and float work, no memory inside the loop. 64 blocks of 256 threads.
extern "C" __global__ void alu_loop(float* out, uint32_t seed, int iterations) {
  uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t state = seed ^ (thread * 2654435761u);
  float a = 0.5f, b = static_cast<float>(thread & 1023u) * 0.0009765625f;
#pragma unroll 1
  for (int i = 0; i < iterations; ++i) {
    state = state * 1664525u + 1013904223u;
    uint32_t bits = (state >> 9) | 0x3f800000u;
    float u = __uint_as_float(bits) - 1.0f;
    a = fmaf(a, 0.75f, u);
    b = fmaf(b, u, a);
    if (b > 4.0f) b -= 4.0f;
    state ^= state >> 13;
  }
  out[thread] = a + b;
}

// One thread per query: online softmax over S keys. q, k, v, o: [S, D] float. blockDim.x queries per block.
template <int D>
__device__ void attention_row(const float* q, const float* k, const float* v, float* o, int row, int S,
                              float scale) {
  float acc[D], query[D];
  for (int d = 0; d < D; ++d) {
    acc[d] = 0.0f;
    query[d] = q[row * D + d] * scale;
  }
  float m = -INFINITY, l = 0.0f;
  for (int j = 0; j < S; ++j) {
    float s = 0.0f;
#pragma unroll
    for (int d = 0; d < D; ++d) s = fmaf(query[d], k[j * D + d], s);
    float m_new = fmaxf(m, s);
    float correction = expf(m - m_new), p = expf(s - m_new);
    l = l * correction + p;
#pragma unroll
    for (int d = 0; d < D; ++d) acc[d] = fmaf(acc[d], correction, p * v[j * D + d]);
    m = m_new;
  }
  for (int d = 0; d < D; ++d) o[row * D + d] = acc[d] / l;
}
extern "C" __global__ void scalar_attention_d64(const float* q, const float* k, const float* v, float* o,
                                                int S, float scale) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < S) attention_row<64>(q, k, v, o, row, S, scale);
}

// Block-wide sum and max: shuffles, then shared memory.
extern "C" __global__ void block_reduce(const float* x, float* sums, float* maxima, int n) {
  __shared__ float sum_of[32], max_of[32];
  float sum = 0.0f, largest = -INFINITY;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += x[i];
    largest = fmaxf(largest, x[i]);
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_down_sync(0xffffffffu, sum, offset);
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
  }
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  if (lane == 0) {
    sum_of[warp] = sum;
    max_of[warp] = largest;
  }
  __syncthreads();
  if (warp == 0) {
    int warps = blockDim.x / 32;
    sum = lane < warps ? sum_of[lane] : 0.0f;
    largest = lane < warps ? max_of[lane] : -INFINITY;
    for (int offset = 16; offset > 0; offset /= 2) {
      sum += __shfl_down_sync(0xffffffffu, sum, offset);
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
    }
    if (lane == 0) {
      sums[blockIdx.x] = sum;
      maxima[blockIdx.x] = largest;
    }
  }
}

// out: 16 words, see README. Every thread contributes its value.
extern "C" __global__ void atomics(const int* values, int* out, float* fout, unsigned long long* lout,
                                   double* dout, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  __shared__ int block_sum;
  if (threadIdx.x == 0) block_sum = 0;
  __syncthreads();
  if (i < n) {
    int v = values[i];
    atomicAdd(&out[0], v);
    atomicMin(&out[1], v);
    atomicMax(&out[2], v);
    atomicAnd(&out[3], v);
    atomicOr(&out[4], v);
    atomicXor(&out[5], v);
    atomicMax(reinterpret_cast<unsigned*>(&out[6]), static_cast<unsigned>(v));
    atomicInc(reinterpret_cast<unsigned*>(&out[7]), 999u);
    atomicAdd(&block_sum, v);
    int expected = out[8], seen;
    do {
      seen = expected;
      expected = atomicCAS(&out[8], seen, seen + 2 * v);
    } while (seen != expected);
    atomicAdd(&fout[0], 0.5f);
    atomicAdd(&lout[0], static_cast<unsigned long long>(v));
    atomicAdd(&dout[0], 0.25);
    atomicAdd(reinterpret_cast<__half2*>(&fout[1]), __floats2half2_rn(1.0f, 0.0f));
  }
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&out[9], block_sum);
}

// out: [gridDim.x * blockDim.x, 12] words
extern "C" __global__ void shuffles_and_votes(const int* values, unsigned* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  int v = values[i];
  unsigned* row = out + 12 * i;
  row[0] = __shfl_sync(0xffffffffu, v, (lane * 7) % 32);
  row[1] = __shfl_up_sync(0xffffffffu, v, 3);
  row[2] = __shfl_down_sync(0xffffffffu, v, 5, 16);
  row[3] = __shfl_xor_sync(0xffffffffu, v, 9);
  row[4] = __ballot_sync(0xffffffffu, v & 1);
  row[5] = __any_sync(0xffffffffu, v > 100) * 2 + __all_sync(0xffffffffu, v > -100);
  row[6] = __match_any_sync(0xffffffffu, v & 3);
  int same;
  row[7] = __match_all_sync(0xffffffffu, v >> 31, &same) + same;
  row[8] = __activemask();
  row[9] = row[10] = row[11] = 0;
  if (v & 1) {
    row[9] = __activemask();
    row[10] = __shfl_sync(__activemask(), v, __ffs(__activemask()) - 1);
  }
  __syncwarp();
#if __CUDA_ARCH__ >= 800
  row[11] = __reduce_add_sync(0xffffffffu, v) ^ __reduce_xor_sync(0xffffffffu, static_cast<unsigned>(v));
#endif
}

// Divergence: nested branches, a data-dependent loop (collatz length), a switch, early return.
extern "C" __global__ void divergence(const int* values, int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  long long v = values[i];
  int steps = 0;
  while (v != 1) {
    v = (v & 1) ? 3 * v + 1 : v / 2;
    ++steps;
    if (steps > 500) break;
  }
  switch (values[i] % 5) {
    case 0:
      steps += 1000;
      break;
    case 1:
      steps *= 3;
      break;
    case 2:
      steps = -steps;
      break;
    case 3:
      steps ^= 0x55;
      break;
    default:
      steps -= 7;
  }
  out[i] = steps;
}

__constant__ float table[8] = {0.0f, 1.5f, -2.25f, 3.0f, 4.125f, -5.0f, 6.5f, 7.75f};
__device__ int counter = 5;
__device__ __noinline__ float polynomial(float x, const float* coefficients, int degree) {
  float r = coefficients[degree];
  for (int i = degree - 1; i >= 0; --i) r = r * x + coefficients[i];
  return r;
}
__device__ __noinline__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
typedef float (*unary)(float);
__device__ __noinline__ float twice(float x) {
  return 2.0f * x;
}
__device__ __noinline__ float square(float x) {
  return x * x;
}

// Calls (recursion, function pointers), constant and local memory, a global variable.
extern "C" __global__ void calls_and_spaces(const float* x, float* out, int* integers, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float coefficients[8];
  for (int j = 0; j < 8; ++j) coefficients[j] = table[(i + j) % 8];
  unary f = (i & 1) ? twice : square;
  out[i] = polynomial(x[i], coefficients, i % 8) + f(x[i]);
  integers[i] = fibonacci(i % 10) + counter;
}

struct Small {
  int a;
  float b;
  double c;
  short d[3];
  unsigned char e;
};
extern "C" __global__ void struct_parameter(const __grid_constant__ Small s, float* out, long long bias,
                                            char tiny, double wide) {
  out[threadIdx.x] = s.a + s.b + static_cast<float>(s.c) + s.d[threadIdx.x % 3] + s.e + bias + tiny +
                     static_cast<float>(wide);
}

extern "C" __global__ void print(int n) {
  if (threadIdx.x < n)
    printf("block %d thread %u: %s %.3f %lld\n", blockIdx.x, threadIdx.x, "hello", threadIdx.x * 0.5,
           1ll << 40);
}

extern "C" __global__ void trap_at(int thread) {
  if (threadIdx.x == thread) __trap();
}

extern "C" __global__ void out_of_bounds(float* x, int n) {
  x[n + threadIdx.x] = 1.0f;
}

// Everything arithmetic, one row of 24 words per thread.
extern "C" __global__ void arithmetic(const float* x, const int* v, unsigned* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a = x[2 * i], b = x[2 * i + 1];
  int p = v[2 * i], q = v[2 * i + 1] | 1;
  unsigned* row = out + 24 * i;
  row[0] = __float_as_uint(a / b);
  row[1] = __float_as_uint(sqrtf(fabsf(a)));
  row[2] = __float_as_uint(rsqrtf(fabsf(b)));
  row[3] = __float_as_uint(exp2f(a));
  row[4] = __float_as_uint(log2f(fabsf(b)));
  row[5] = __float_as_uint(__sinf(a));
  row[6] = __float_as_uint(tanhf(a));
  row[7] = __float_as_uint(fminf(a, b));
  row[8] = __float2int_rn(a * 100.0f);
  row[9] = __float2uint_rz(fabsf(b) * 1e3f);
  row[10] = p / q;
  row[11] = p % q;
  row[12] = static_cast<unsigned>(p) / static_cast<unsigned>(q);
  row[13] = __mulhi(p, q);
  row[14] = __umulhi(p, q);
  row[15] = __clz(p) * 64 + __popc(q);
  row[16] = __brev(p);
  row[17] = __byte_perm(p, q, 0x5140);
  row[18] = __funnelshift_l(p, q, 7);
  row[19] = __half_as_ushort(__float2half_rn(a)) |
            (static_cast<unsigned>(__bfloat16_as_ushort(__float2bfloat16_rn(b))) << 16);
  double d = static_cast<double>(a) * b + 1e-9;
  row[20] = __double2loint(d / 3.0);
  row[21] = __double2hiint(sqrt(fabs(d)));
  row[22] = static_cast<unsigned>(static_cast<long long>(p) * q >> 17);
  row[23] = (p > q ? p : q) + abs(p) + __ffs(q) + ((p >> 5) & 31) + min(p, 3) + __vadd2(p, q);
}

// Transpose through padded shared memory, vectorised loads. in: [H, W], out: [W, H]; block (32, 8).
extern "C" __global__ void transpose(const float* in, float* out, int H, int W) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < W && y + j < H) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * W + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8)
    if (x < H && y + j < W) out[(y + j) * H + x] = tile[threadIdx.x][threadIdx.y + j];
}

// 128-bit loads and stores, dynamic shared memory, named barriers through bar.sync with counts.
extern "C" __global__ void vector_copy(const float4* in, float4* out, int n) {
  extern __shared__ float4 buffer[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  buffer[threadIdx.x] = i < n ? in[i] : make_float4(0, 0, 0, 0);
  asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x / 64), "r"(64) : "memory");
  int partner = threadIdx.x ^ 32;
  if (i < n) out[i] = buffer[partner];
}
