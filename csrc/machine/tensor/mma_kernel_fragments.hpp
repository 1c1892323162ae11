// Compiled once per instruction set by way of mma_kernel_impl.hpp, which says why all is in an unnamed
// namespace.
#pragma once

#include "machine/tensor/mma_kernel_transposes.hpp"

// mma.sync of 16-bit elements where registers lie as they are: the four lanes of a row are one of a vector's
// quarters of 128 bits, so that a column of A is a shuffle within quarters and a row of B is the same for all
// of them. Uses Vector and its operations of mma_kernel_impl.hpp.
namespace sglab::emu {
namespace {

#if defined(__AVX2__) && defined(__FMA__)
constexpr int kVectors = 32 / kWidth;
constexpr int kHalves = kWidth == 16 ? 2 : 1;  // of the rows, 0-7 and 8-15, at once: as registers allow

// For every four lanes, what one of them has.
template <int Lane>
inline Vector of_lane(Vector v) {
#if defined(__AVX512F__)
  return _mm512_permute_ps(v, Lane * 0x55);
#else
  return _mm256_permute_ps(v, Lane * 0x55);
#endif
}

inline Vector for_all_rows(const float* four) {
#if defined(__AVX512F__)
  return _mm512_broadcast_f32x4(_mm_loadu_ps(four));
#else
  return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(four));
#endif
}

inline Vector multiply_add(Vector a, Vector b, Vector c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#else
  return _mm256_fmadd_ps(a, b, c);
#endif
}

// The two columns of A that this lane of four holds, and as many rows of B: [even columns, odd columns].
template <int Lane>
inline void add_two(const float (*a)[2][32], const float* b, Vector (&sum)[kHalves][2][kVectors]) {
  b += 16 * Lane;
#pragma GCC unroll 2
  for (int element = 0; element < 2; ++element, b += 8) {
    const Vector even = for_all_rows(b), odd = for_all_rows(b + 4);
#pragma GCC unroll 2
    for (int half = 0; half < kHalves; ++half) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const Vector left = of_lane<Lane>(load(a[half][element] + v * kWidth));
        sum[half][0][v] = multiply_add(left, even, sum[half][0][v]);
        sum[half][1][v] = multiply_add(left, odd, sum[half][1][v]);
      }
    }
  }
}

template <typename Format>
void multiply_fragments(const std::uint32_t* const* a, const std::uint32_t* const* b,
                        const std::uint32_t* const* c, int k, std::uint32_t* const* d) {
  alignas(64) float left[2][2][2][32];  // [eight columns][half of the rows][element][lane]
  alignas(64) float right[16 * 8];      // [row][even columns, odd columns]
  alignas(64) float out[4][32];         // apart, for D may lie where an operand is
  const int blocks = k / 8;
  for (int block = 0; block < blocks; ++block) {
    for (int half = 0; half < 2; ++half) {
      widen_pairs<Format>(a[2 * block + half], 32, left[block][half][0], left[block][half][1]);
    }
    const std::uint8_t* columns[8];
    for (int i = 0; i < 8; ++i)
      columns[i] = reinterpret_cast<const std::uint8_t*>(b[block] + 4 * (2 * (i % 4) + i / 4));
    transpose_widen8<Format>(columns, right + 64 * block, 8);
  }
  for (int first = 0; first < 2; first += kHalves) {
    Vector sum[kHalves][2][kVectors];
#pragma GCC unroll 2
    for (int half = 0; half < kHalves; ++half) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        std::memcpy(&sum[half][0][v], c[2 * (first + half)] + v * kWidth, sizeof(Vector));
        std::memcpy(&sum[half][1][v], c[2 * (first + half) + 1] + v * kWidth, sizeof(Vector));
      }
    }
    for (int block = 0; block < blocks; ++block) {
      const auto* const rows = left[block] + first;
      const float* const other = right + 64 * block;
      add_two<0>(rows, other, sum);
      add_two<1>(rows, other, sum);
      add_two<2>(rows, other, sum);
      add_two<3>(rows, other, sum);
    }
#pragma GCC unroll 2
    for (int half = 0; half < kHalves; ++half) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        store(out[2 * (first + half)] + v * kWidth, canonical(sum[half][0][v]));
        store(out[2 * (first + half) + 1] + v * kWidth, canonical(sum[half][1][v]));
      }
    }
  }
  for (int i = 0; i < 4; ++i) std::memcpy(d[i], out[i], sizeof(out[i]));
}

constexpr auto kMultiplyF16 = multiply_fragments<HalfFormat>,
               kMultiplyBf16 = multiply_fragments<BfloatFormat>;
#else
constexpr decltype(MmaKernels::multiply_f16_fragments) kMultiplyF16 = nullptr, kMultiplyBf16 = nullptr;
#endif

}  // namespace
}  // namespace sglab::emu
