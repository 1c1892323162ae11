// Attention of a prompt on Blackwell, one step after the other: what a fast kernel overlaps is in order here.
//
//   O = softmax(scale · Q Kᵀ + mask) V        head dim 64, float16, one head
//
// A CTA has 128 queries and walks over tiles of 64 keys. Everything but the operands lies in tensor memory,
// query r in lane r, so that thread r has a row to itself and no softmax needs a shuffle:
//   columns 0–63 S, then P over it (two halves to a column: 0–31); columns 64–127 O
#include <cuda_fp16.h>

#include <cstdint>

#include "../ptx/address.cuh"
#include "../ptx/barrier.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/tcgen05.cuh"

namespace {

constexpr int kThreads = 128, kRows = 128, kKeys = 64, kDim = 64, kRowBytes = 2 * kDim;
constexpr int kS = 0, kP = 0, kO = 64;

struct Shared {
  uint4 q[kRows * kRowBytes / 16], k[kKeys * kRowBytes / 16], v[kKeys * kRowBytes / 16];
  uint64_t done;
  uint32_t columns;
};

// Rows of 128 bytes with the 128-byte swizzle; those past the end are zeros.
__device__ void copy_rows(uint4* to, const __half* from, int first, int count, int rows) {
  const uint4* source = reinterpret_cast<const uint4*>(from);
  for (int i = threadIdx.x; i < count * 8; i += kThreads) {
    const int row = i / 8, chunk = i % 8;
    to[row * 8 + (chunk ^ row % 8)] = first + row < rows ? source[(first + row) * 8 + chunk] : uint4{};
  }
}

// Eight rows are 1,024 bytes; the layout is that of the 128-byte swizzle.
__device__ uint64_t descriptor(const void* tile) {
  return uint64_t(2) << 61 | uint64_t(1) << 46 | uint64_t(1024 >> 4) << 32 | ptx::smem_address(tile) >> 4;
}

constexpr uint32_t kQK = 1 << 4 | kKeys >> 3 << 17 | kRows >> 4 << 24;
constexpr uint32_t kPV =
    1 << 4 | 1 << 16 | kDim >> 3 << 17 | kRows >> 4 << 24;  // V is MN-major: dims contiguous

__device__ void multiply(uint32_t d, uint64_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n}\n" ::"r"(d),
      "l"(a), "l"(b), "r"(kQK), "r"(int(accumulate))
      : "memory");
}

// The same with A in tensor memory.
__device__ void multiply_tmem(uint32_t d, uint32_t a, uint64_t b, bool accumulate) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p;\n}\n" ::"r"(d),
      "r"(a), "l"(b), "r"(kPV), "r"(int(accumulate))
      : "memory");
}

__device__ void commit(uint64_t& done) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   ptx::smem_address(&done))
               : "memory");
}

// Threads' accesses to shared and tensor memory before it, products after it.
__device__ void before_products() {
  ptx::fence_proxy_async();
  ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  ptx::tcgen05_fence_after_thread_sync();
}

__device__ float exp2_unit(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// 2^x for x ≤ 0 on the units that multiply and add. Adding 1.5 · 2^23, rounded down, leaves floor(x) in the
// low bits: they go to the exponent's place. A cubic on the rest, in [0, 1), does the fraction (errors below
// 9e-5).
__device__ float exp2_polynomial(float x) {
  constexpr float kMagic = 12582912.0f;
  x = fmaxf(x, -127.0f);
  const float floored = __fadd_rd(x, kMagic);
  const float fraction = x - (floored - kMagic);
  float y = fmaf(fraction, 0.0771190897f, 0.2275643945f);
  y = fmaf(y, fraction, 0.6951461434f);
  y = fmaf(y, fraction, 1.0f);
  return __uint_as_float(__float_as_uint(y) + (__float_as_uint(floored) << 23));
}

// P of 64 scores, rounded and packed, and their sum.
template <int kPolynomial>
__device__ float exponentials(const float (&s)[2][kKeys / 2], float maximum, float (&p)[kKeys / 2]) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kKeys; i += 2) {
    float e[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float x = s[i / 32][i % 32 + j] - maximum;
      e[j] = i % 16 < kPolynomial ? exp2_polynomial(x) : exp2_unit(x);
      sum += e[j];
    }
    const __half2 halves = __floats2half2_rn(e[0], e[1]);
    p[i / 2] = __uint_as_float(*reinterpret_cast<const uint32_t*>(&halves));
  }
  return sum;
}

__device__ void rescale(uint32_t o, float factor) {
  float row[32];
  for (int column = 0; column < kDim; column += 32) {
    ptx::tcgen05_ld_32(row, o + column);
    ptx::tcgen05_wait_ld(row);
#pragma unroll
    for (int i = 0; i < 32; ++i) row[i] *= factor;
    ptx::tcgen05_st_32(o + column, row);
  }
}

template <int kPolynomial>
__device__ void attention(const __half* q, const __half* k, const __half* v, float* o, int* rescaled,
                          int queries, int keys, float scale_log2, float threshold, int causal) {
  __shared__ __align__(1024) Shared shared;
  const int warp = threadIdx.x / 32, first = blockIdx.x * kRows, row = first + threadIdx.x;
  const int position = row + keys - queries;  // of this query among the keys
  const int last = min(keys, causal ? first + kRows + keys - queries : keys);
  copy_rows(shared.q, q, first, kRows, queries);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(shared.done, 1);
    ptx::fence_mbarrier_init();
  }
  if (warp == 0)
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(
                     ptx::smem_address(&shared.columns))
                 : "memory");
  __syncthreads();
  ptx::tcgen05_fence_after_thread_sync();
  const uint32_t columns = shared.columns, mine = columns + (warp << 21);

  float maximum = -INFINITY, sum = 0.0f;
  uint32_t parity = 0;
  int times = 0;
#pragma unroll 1
  for (int start = 0; start < last; start += kKeys) {
    copy_rows(shared.k, k, start, kKeys, keys);
    copy_rows(shared.v, v, start, kKeys, keys);
    before_products();
    if (threadIdx.x == 0) {
      for (int step = 0; step < kDim / 16; ++step)
        multiply(columns + kS, descriptor(shared.q) + 2 * step, descriptor(shared.k) + 2 * step, step > 0);
      commit(shared.done);
    }
    ptx::mbarrier_wait(shared.done, parity);
    parity ^= 1;
    ptx::tcgen05_fence_after_thread_sync();

    float s[2][kKeys / 2], p[kKeys / 2];
    for (int half = 0; half < 2; ++half) {
      ptx::tcgen05_ld_32(s[half], mine + kS + 32 * half);
      ptx::tcgen05_wait_ld(s[half]);
    }
    float largest = maximum;
    const int seen = causal ? min(keys, position + 1) : keys;
#pragma unroll
    for (int i = 0; i < kKeys; ++i) {
      float& score = s[i / 32][i % 32];
      score = start + i < seen ? score * scale_log2 : -INFINITY;
      largest = fmaxf(largest, score);
    }
    // Below the threshold the old maximum stays: P is then at most 2^threshold, and O needs no correction.
    const bool grown = largest - maximum > threshold;
    if (start == 0) {
      maximum = largest;
    } else if (__any_sync(0xffffffff, grown)) {
      const float factor = grown ? exp2_unit(maximum - largest) : 1.0f;
      rescale(mine + kO, factor);
      sum *= factor;
      maximum = grown ? largest : maximum;
      ++times;
    }
    sum += exponentials<kPolynomial>(s, maximum, p);
    ptx::tcgen05_st_32(mine + kP, p);
    ptx::tcgen05_wait_st();
    before_products();
    if (threadIdx.x == 0) {
      for (int step = 0; step < kKeys / 16; ++step)  // 16 keys: 8 columns of P, 16 rows of V
        multiply_tmem(columns + kO, columns + kP + 8 * step, descriptor(shared.v) + 128 * step,
                      start + step > 0);
      commit(shared.done);
    }
    ptx::mbarrier_wait(shared.done, parity);
    parity ^= 1;
    ptx::tcgen05_fence_after_thread_sync();
  }

  float out[32];
  for (int column = 0; column < kDim; column += 32) {
    ptx::tcgen05_ld_32(out, mine + kO + column);
    ptx::tcgen05_wait_ld(out);
    if (row < queries)
      for (int i = 0; i < 32; ++i) o[row * kDim + column + i] = out[i] / sum;
  }
  if (threadIdx.x % 32 == 0) rescaled[blockIdx.x * 4 + warp] = times;
  ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  if (warp == 0)
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" ::"r"(columns) : "memory");
}

}  // namespace

// q, o (queries, 64), k, v (keys, 64); rescaled (CTAs, 4 warps): how often a warp corrected O; scale_log2: of
// the scores, times log2 e; threshold: in powers of two. NAME: of 16 exponentials, so many by the polynomial.
#define ATTENTION_TILE(NAME, POLYNOMIAL)                                                                \
  extern "C" __global__ void __launch_bounds__(kThreads)                                                \
      attention_tile_##NAME(const __half* q, const __half* k, const __half* v, float* o, int* rescaled, \
                            int queries, int keys, float scale_log2, float threshold, int causal) {     \
    attention<POLYNOMIAL>(q, k, v, o, rescaled, queries, keys, scale_log2, threshold, causal);          \
  }
ATTENTION_TILE(0, 0)
ATTENTION_TILE(4, 4)
ATTENTION_TILE(16, 16)
