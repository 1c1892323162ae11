// Compiled once per instruction set by mma_kernel_{baseline,avx2,avx512}.cpp. Everything is in an unnamed
// namespace and no header with inline functions comes in, so that no other object file can pick up these
// copies.

#include <cstdint>
#include <cstring>

#include "machine/float/binary64.hpp"
#include "machine/float/mode.hpp"
#include "machine/tensor/mma_kernel.hpp"
#include "machine/tensor/mma_kernel_formats.hpp"
#include "machine/tensor/mma_kernel_transposes.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace sglab::emu {
namespace {

#if defined(__AVX512F__)
constexpr int kWidth = 16, kRowVectors = 4, kColumns = 4;
#elif defined(__AVX2__)
constexpr int kWidth = 8, kRowVectors = 2, kColumns = 4;
#else
constexpr int kWidth = 4, kRowVectors = 2, kColumns = 4;
#endif

typedef float Vector __attribute__((vector_size(kWidth * 4)));

inline Vector load(const float* source) {
  Vector value;
  std::memcpy(&value, source, sizeof(value));
  return value;
}

inline void store(float* target, Vector value) {
  std::memcpy(target, &value, sizeof(value));
}

// Every NaN becomes the one of f32 arithmetic; which one sums and products propagate differs from host to
// host.
inline Vector canonical(Vector v) {
  typedef std::int32_t Bits __attribute__((vector_size(kWidth * 4)));
  const Bits number = v == v, nan = Bits{} + 0x7fffffff;
  return (Vector)(((Bits)v & number) | (nan & ~number));
}

#if defined(__FMA__) || defined(__aarch64__)
constexpr bool kFused = true;
#else
constexpr bool kFused = false;
#endif

// a * b + c, rounded once. `Exact`: the products are exact in fp32.
template <bool Exact>
inline Vector multiply_add(Vector a, float b, Vector c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, _mm512_set1_ps(b), c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, _mm256_set1_ps(b), c);
#elif defined(__aarch64__)
  return (Vector)vfmaq_n_f32((float32x4_t)c, (float32x4_t)a, b);
#else
  if constexpr (Exact) return a * b + c;
  Vector r;
  for (int i = 0; i < kWidth; ++i) {
    // In fp64 the product is exact. The sum rounds to odd there, so that a second rounding does no harm.
    const double p = static_cast<double>(a[i]) * static_cast<double>(b), z = static_cast<double>(c[i]);
    double s = p + z;
    const double t = s - p, error = (p - (s - t)) + (z - t);
    std::uint64_t bits;
    std::memcpy(&bits, &s, 8);
    if (error == error && error != 0 && (bits & 1) == 0) bits += (error < 0) == (s < 0) ? 1 : -1;
    std::memcpy(&s, &bits, 8);
    r[i] = static_cast<float>(s);
  }
  return r;
#endif
}

// The exponent fields' range over a panel's values other than zero.
struct Exponents {
  std::uint32_t least = 0xffffffffu, most = 0;

  void see(const float* values, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      std::uint32_t bits;
      std::memcpy(&bits, values + i, 4);
      const std::uint32_t magnitude = bits & 0x7fffffffu;
      least = magnitude != 0 && magnitude < least ? magnitude : least;
      most = magnitude > most ? magnitude : most;
    }
  }
  std::uint32_t lowest() const { return least >> 23; }
  std::uint32_t highest() const { return most >> 23; }
};

// Whether products of the panels' elements, which have at most 12 bits each, neither overflow nor get
// subnormal.
bool products_are_exact(const MmaPanels& p) {
  Exponents a, b;
  for (int k = 0; k < p.k; ++k) a.see(p.a + k * p.a_stride, p.m);
  if (p.b_stride_k == 1) {
    for (int n = 0; n < p.n; ++n) b.see(p.b + n * p.b_stride_n, p.k);
  } else {
    for (int k = 0; k < p.k; ++k)
      for (int n = 0; n < p.n; ++n) b.see(p.b + n * p.b_stride_n + k * p.b_stride_k, 1);
  }
  if (a.most == 0 || b.most == 0) return a.highest() != 255 && b.highest() != 255;
  return a.lowest() != 0 && b.lowest() != 0 && a.lowest() + b.lowest() >= 127 + 1 &&
         a.highest() + b.highest() <= 127 + 253 && a.highest() != 255 && b.highest() != 255;
}

// A block of `Rows` vectors by `Columns` columns held in registers over the whole of K. Without the pragmas
// GCC unrolls these loops too late to keep the sums out of memory.
template <bool Exact, int Rows, int Columns>
inline void multiply_block(const MmaPanels& p, int row, int column) {
  Vector sum[Columns][Rows];
  float* d = p.d + column * p.d_stride + row;
#pragma GCC unroll 8
  for (int j = 0; j < Columns; ++j) {
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) {
      sum[j][i] = p.accumulate ? load(d + j * p.d_stride + i * kWidth) : Vector{};
    }
  }
  const float* a = p.a + row;
  const float* b = p.b + column * p.b_stride_n;
  for (int k = 0; k < p.k; ++k, a += p.a_stride, b += p.b_stride_k) {
    Vector left[Rows];
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) left[i] = load(a + i * kWidth);
#pragma GCC unroll 8
    for (int j = 0; j < Columns; ++j) {
      const float right = b[j * p.b_stride_n];
#pragma GCC unroll 4
      for (int i = 0; i < Rows; ++i) sum[j][i] = multiply_add<Exact>(left[i], right, sum[j][i]);
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < Columns; ++j) {
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) store(d + j * p.d_stride + i * kWidth, canonical(sum[j][i]));
  }
}

template <bool Exact, int Rows>
void multiply_rows(const MmaPanels& p, int row) {
  int column = 0;
  // More columns at once where few rows would leave the multipliers waiting for each other.
  for (; Rows == 1 && column + 2 * kColumns <= p.n; column += 2 * kColumns) {
    multiply_block<Exact, Rows, 2 * kColumns>(p, row, column);
  }
  for (; column + kColumns <= p.n; column += kColumns) multiply_block<Exact, Rows, kColumns>(p, row, column);
  for (; column < p.n; ++column) multiply_block<Exact, Rows, 1>(p, row, column);
}

template <bool Exact>
void multiply_panels(const MmaPanels& p) {
  int row = 0;
  for (; row + kRowVectors * kWidth <= p.m; row += kRowVectors * kWidth)
    multiply_rows<Exact, kRowVectors>(p, row);
  for (; row + kWidth <= p.m; row += kWidth) multiply_rows<Exact, 1>(p, row);
}

void multiply(const MmaPanels& p) {
  if constexpr (!kFused) {
    if (!products_are_exact(p)) return multiply_panels<false>(p);
  }
  multiply_panels<true>(p);
}

}  // namespace
}  // namespace sglab::emu

#include "machine/tensor/mma_kernel_copies.hpp"
#include "machine/tensor/mma_kernel_fragments.hpp"

namespace sglab::emu {
namespace {

double fused_f64(double a, double b, double c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fma(a, b, c);
#else
  return binary64::fused(a, b, c, kNearest);
#endif
}

constexpr MmaKernels kKernels = {multiply,
                                 kMultiplyF16,
                                 kMultiplyBf16,
                                 fused_f64,
                                 transpose_runs<HalfFormat>,
                                 transpose_runs<BfloatFormat>,
                                 widen<HalfFormat>,
                                 widen<BfloatFormat>,
                                 widen_runs<HalfFormat>,
                                 widen_runs<BfloatFormat>,
                                 widen_pairs<HalfFormat>,
                                 widen_pairs<BfloatFormat>,
                                 widen_chunk<HalfFormat>,
                                 widen_chunk<BfloatFormat>,
                                 widen_e4m3,
                                 widen_e5m2,
                                 narrow_f16,
                                 transpose_halves,
                                 transpose_bytes,
                                 fragment_to_columns,
                                 columns_to_fragment,
                                 place_copies};

}  // namespace
