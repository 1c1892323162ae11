// Compiled once per instruction set by way of mma_kernel_impl.hpp, which says why all is in an unnamed
// namespace.
#pragma once

#include "machine/tensor/mma_kernel_formats.hpp"

// Rows into columns.
namespace sglab::emu {
namespace {

void transpose_halves(const std::uint8_t* const rows[8], std::uint16_t* out) {
#if defined(__SSE2__)
  __m128i r[8], s[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i]));
  for (int i = 0; i < 4; ++i) {
    s[2 * i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
    s[2 * i + 1] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
  }
  for (int half = 0; half < 2; ++half) {
    r[4 * half + 0] = _mm_unpacklo_epi32(s[half], s[2 + half]);
    r[4 * half + 1] = _mm_unpackhi_epi32(s[half], s[2 + half]);
    r[4 * half + 2] = _mm_unpacklo_epi32(s[4 + half], s[6 + half]);
    r[4 * half + 3] = _mm_unpackhi_epi32(s[4 + half], s[6 + half]);
  }
  for (int half = 0; half < 2; ++half) {
    for (int pair = 0; pair < 2; ++pair) {
      const __m128i low = r[4 * half + pair], high = r[4 * half + 2 + pair];
      const int k = 4 * half + 2 * pair;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 8 * k), _mm_unpacklo_epi64(low, high));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 8 * k + 8), _mm_unpackhi_epi64(low, high));
    }
  }
#else
  for (int row = 0; row < 8; ++row) {
    std::uint16_t words[8];
    std::memcpy(words, rows[row], 16);
    for (int k = 0; k < 8; ++k) out[8 * k + row] = words[k];
  }
#endif
}

template <typename Format>
void transpose_widen8(const std::uint8_t* const rows[8], float* out, std::int64_t out_stride) {
  std::uint16_t words[64];
  transpose_halves(rows, words);
  for (int k = 0; k < 8; ++k) Format::widen8(words + 8 * k, out + k * out_stride);
}

template <typename Format>
void transpose_widen16(const std::uint8_t* const rows[16], float* out, std::int64_t out_stride) {
#if defined(__AVX2__)
  // As transpose_halves, with rows 8 to 15 in the upper lanes.
  const auto chunk = [](const std::uint8_t* row) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row));
  };
  __m256i r[8], s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) r[i] = _mm256_set_m128i(chunk(rows[i + 8]), chunk(rows[i]));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    s[2 * i] = _mm256_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
    s[2 * i + 1] = _mm256_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    r[4 * half + 0] = _mm256_unpacklo_epi32(s[half], s[2 + half]);
    r[4 * half + 1] = _mm256_unpackhi_epi32(s[half], s[2 + half]);
    r[4 * half + 2] = _mm256_unpacklo_epi32(s[4 + half], s[6 + half]);
    r[4 * half + 3] = _mm256_unpackhi_epi32(s[4 + half], s[6 + half]);
  }
#pragma GCC unroll 4
  for (int pair = 0; pair < 4; ++pair) {
    const __m256i low = r[pair + pair / 2 * 2], high = r[pair + pair / 2 * 2 + 2];
    float* const column = out + 2 * pair * out_stride;
    Format::widen16(_mm256_unpacklo_epi64(low, high), column);
    Format::widen16(_mm256_unpackhi_epi64(low, high), column + out_stride);
  }
#else
  transpose_widen8<Format>(rows, out, out_stride);
  transpose_widen8<Format>(rows + 8, out + 8, out_stride);
#endif
}

template <typename Format>
void transpose_runs(const std::uint8_t* smem, const std::uint32_t* addresses, int rows, std::uint32_t chunks,
                    float* out, std::int64_t stride) {
  for (int row = 0; row < rows;) {
    const int count = rows - row >= 16 ? 16 : 8;
    float* target = out + row;
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk, target += 8 * stride) {
      const std::uint8_t* lines[16];
      for (int i = 0; i < count; ++i) lines[i] = smem + (addresses[row + i] ^ 16 * chunk);
      if (count == 16) {
        transpose_widen16<Format>(lines, target, stride);
      } else {
        transpose_widen8<Format>(lines, target, stride);
      }
    }
    row += count;
  }
}

void transpose_bytes(const std::uint8_t* const rows[16], std::uint8_t* out) {
#if defined(__SSE2__)
  // Four perfect shuffles of the rows.
  __m128i r[16], s[16];
  for (int i = 0; i < 16; ++i) r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i]));
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 8; ++i) {
      s[2 * i] = _mm_unpacklo_epi8(r[i], r[i + 8]);
      s[2 * i + 1] = _mm_unpackhi_epi8(r[i], r[i + 8]);
    }
    std::memcpy(r, s, sizeof(r));
  }
  std::memcpy(out, r, sizeof(r));
#else
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) out[16 * k + row] = rows[row][k];
  }
#endif
}

#if defined(__AVX512F__)
// Transposes a 4 x 4 block of 4-float groups' inner quads: the low and high column pairs of two 4-row
// vectors.
inline __m512 pick(__m512 a, __m512 b, bool high) {
  const __m512i low_index = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i index = high ? _mm512_add_epi32(low_index, _mm512_set1_epi32(2)) : low_index;
  return _mm512_permutex2var_ps(a, index, b);
}
#endif

void fragment_to_columns(const std::uint32_t* upper, const std::uint32_t* lower, float* columns,
                         std::int64_t stride) {
#if defined(__AVX512F__)
  const __m512 u0 = _mm512_loadu_ps(upper), u1 = _mm512_loadu_ps(upper + 16);
  const __m512 l0 = _mm512_loadu_ps(lower), l1 = _mm512_loadu_ps(lower + 16);
  for (int pair = 0; pair < 2; ++pair) {
    const __m512 u = pick(u0, u1, pair), l = pick(l0, l1, pair);
    _mm512_storeu_ps(columns + 2 * pair * stride, _mm512_shuffle_f32x4(u, l, 0x44));
    _mm512_storeu_ps(columns + (2 * pair + 1) * stride, _mm512_shuffle_f32x4(u, l, 0xee));
  }
#else
  for (int q = 0; q < 4; ++q) {
    for (int row = 0; row < 8; ++row) {
      std::memcpy(columns + q * stride + row, upper + 4 * row + q, 4);
      std::memcpy(columns + q * stride + row + 8, lower + 4 * row + q, 4);
    }
  }
#endif
}

void columns_to_fragment(const float* columns, std::int64_t stride, std::uint32_t* upper,
                         std::uint32_t* lower) {
#if defined(__AVX512F__)
  const __m512 c0 = _mm512_loadu_ps(columns), c1 = _mm512_loadu_ps(columns + stride);
  const __m512 c2 = _mm512_loadu_ps(columns + 2 * stride), c3 = _mm512_loadu_ps(columns + 3 * stride);
  // Lanes 4 row + q: interleave columns 0 and 1, then 2 and 3, then pairs.
  const __m512i rows_low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i rows_high = _mm512_add_epi32(rows_low, _mm512_set1_epi32(8));
  const __m512i pairs_low = _mm512_setr_epi32(0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
  const __m512i pairs_high = _mm512_add_epi32(pairs_low, _mm512_set1_epi32(8));
  const __m512 a = _mm512_permutex2var_ps(c0, rows_low, c1), b = _mm512_permutex2var_ps(c2, rows_low, c3);
  const __m512 c = _mm512_permutex2var_ps(c0, rows_high, c1), d = _mm512_permutex2var_ps(c2, rows_high, c3);
  _mm512_storeu_ps(upper, _mm512_permutex2var_ps(a, pairs_low, b));
  _mm512_storeu_ps(upper + 16, _mm512_permutex2var_ps(a, pairs_high, b));
  _mm512_storeu_ps(lower, _mm512_permutex2var_ps(c, pairs_low, d));
  _mm512_storeu_ps(lower + 16, _mm512_permutex2var_ps(c, pairs_high, d));
#else
  for (int q = 0; q < 4; ++q) {
    for (int row = 0; row < 8; ++row) {
      std::memcpy(upper + 4 * row + q, columns + q * stride + row, 4);
      std::memcpy(lower + 4 * row + q, columns + q * stride + row + 8, 4);
    }
  }
#endif
}

}  // namespace
}  // namespace sglab::emu
