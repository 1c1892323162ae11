// Compiled once per instruction set by mma_kernel_{baseline,avx2,avx512}.cpp. Everything is in an unnamed
// namespace and no header with inline functions comes in, so that no other object file can pick up these
// copies.

#include <cstdint>
#include <cstring>

#include "machine/float/binary64.hpp"
#include "machine/float/mode.hpp"
#include "machine/tensor/mma_kernel.hpp"

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

// A block of `Rows` vectors by `Columns` columns held in registers over the whole of K.
template <bool Exact, int Rows, int Columns>
inline void multiply_block(const MmaPanels& p, int row, int column) {
  Vector sum[Columns][Rows];
  float* d = p.d + column * p.d_stride + row;
  for (int j = 0; j < Columns; ++j) {
    for (int i = 0; i < Rows; ++i) {
      sum[j][i] = p.accumulate ? load(d + j * p.d_stride + i * kWidth) : Vector{};
    }
  }
  const float* a = p.a + row;
  const float* b = p.b + column * p.b_stride_n;
  for (int k = 0; k < p.k; ++k, a += p.a_stride, b += p.b_stride_k) {
    Vector left[Rows];
    for (int i = 0; i < Rows; ++i) left[i] = load(a + i * kWidth);
    for (int j = 0; j < Columns; ++j) {
      const float right = b[j * p.b_stride_n];
      for (int i = 0; i < Rows; ++i) sum[j][i] = multiply_add<Exact>(left[i], right, sum[j][i]);
    }
  }
  for (int j = 0; j < Columns; ++j) {
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

double fused_f64(double a, double b, double c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fma(a, b, c);
#else
  return binary64::fused(a, b, c, kNearest);
#endif
}

struct HalfFormat {
  static void widen8(const std::uint16_t* source, float* out) {
#if defined(__AVX2__)
    __m128i raw;
    std::memcpy(&raw, source, 16);
    _mm256_storeu_ps(out, _mm256_cvtph_ps(raw));
#else
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t raw = source[i];
      std::uint32_t bits = (raw & 0x7fffu) << 13;
      float value;
      std::memcpy(&value, &bits, 4);
      value *= 0x1p112f;  // rebias; exact, and normalises what was subnormal
      std::memcpy(&bits, &value, 4);
      if ((raw & 0x7c00u) == 0x7c00u) bits = 0x7f800000u | ((raw & 0x3ffu) << 13);
      bits |= (raw & 0x8000u) << 16;
      std::memcpy(out + i, &bits, 4);
    }
#endif
  }
};

void narrow_f16(const float* source, std::uint16_t* out, int count) {
#if defined(__AVX2__)
  for (int i = 0; i < count; i += 8) {
    const __m256 value = _mm256_loadu_ps(source + i);
    const __m128i halves = _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    const __m128i nan16 = _mm_packs_epi32(_mm256_castsi256_si128(nan), _mm256_extracti128_si256(nan, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i),
                     _mm_blendv_epi8(halves, _mm_set1_epi16(0x7fff), nan16));
  }
#else
  for (int i = 0; i < count; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, source + i, 4);
    const std::uint32_t magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    // Subnormal results round by adding the power of two whose unit in the last place is theirs.
    float value;
    std::memcpy(&value, &magnitude, 4);
    value += 0.5f;
    std::uint32_t small;
    std::memcpy(&small, &value, 4);
    std::uint32_t code = magnitude < 0x38800000u
                             ? small - 0x3f000000u
                             : ((magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13) - (112u << 10);
    if (magnitude >= 0x47800000u || code > 0x7c00u) code = 0x7c00u;
    out[i] = static_cast<std::uint16_t>(magnitude > 0x7f800000u ? 0x7fffu : code | sign);
  }
#endif
}

struct BfloatFormat {
  static void widen8(const std::uint16_t* source, float* out) {
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t bits = static_cast<std::uint32_t>(source[i]) << 16;
      std::memcpy(out + i, &bits, 4);
    }
  }
};

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
void transpose_widen(const std::uint8_t* const rows[8], float* out, std::int64_t out_stride) {
  std::uint16_t words[64];
  transpose_halves(rows, words);
  for (int k = 0; k < 8; ++k) Format::widen8(words + 8 * k, out + k * out_stride);
}

template <typename Format>
void widen_chunk(const std::uint8_t* source, float* out) {
  std::uint16_t words[8];
  std::memcpy(words, source, 16);
  Format::widen8(words, out);
}

template <typename Format>
void widen(const std::uint8_t* source, float* out, int count) {
  for (int i = 0; i < count; i += 8) widen_chunk<Format>(source + 2 * i, out + i);
}

#if defined(__AVX2__)
void store_halves(__m256i halves, __m256 scale, float* out) {
  _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(halves)), scale));
  _mm256_storeu_ps(out + 8, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)), scale));
}

__m256i load_bytes(const std::uint8_t* source) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
}

// By way of fp16, whose exponent is eight further on; the one NaN becomes fp16's.
void widen_e4m3(const std::uint8_t* source, float* out) {
  const __m256i raw = load_bytes(source), all = _mm256_set1_epi16(0x7f);
  const __m256i magnitude = _mm256_and_si256(raw, all);
  const __m256i sign = _mm256_slli_epi16(_mm256_andnot_si256(all, raw), 8);
  const __m256i nan = _mm256_and_si256(_mm256_cmpeq_epi16(magnitude, all), _mm256_set1_epi16(0x7e00));
  const __m256i halves = _mm256_or_si256(_mm256_or_si256(sign, nan), _mm256_slli_epi16(magnitude, 7));
  store_halves(halves, _mm256_set1_ps(256.0f), out);
}

void widen_e5m2(const std::uint8_t* source, float* out) {
  store_halves(_mm256_slli_epi16(load_bytes(source), 8), _mm256_set1_ps(1.0f), out);
}
#else
// The exponent and mantissa bits land in fp32's places, a product with a power of two rebiases and normalises
// them; codes from `special` on (without the sign) are infinity or NaN.
template <int kMantissa, std::uint32_t kRebias, std::uint32_t kSpecial>
void widen_small(const std::uint8_t* source, float* out) {
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t raw = source[i], magnitude = raw & 0x7fu, rebias_bits = kRebias << 23;
    std::uint32_t bits = magnitude << (23 - kMantissa);
    float value, rebias;
    std::memcpy(&value, &bits, 4);
    std::memcpy(&rebias, &rebias_bits, 4);
    value *= rebias;
    std::memcpy(&bits, &value, 4);
    const bool infinite = kMantissa == 2 && magnitude == kSpecial;
    if (magnitude >= kSpecial) bits = infinite ? 0x7f800000u : 0x7fc00000u;
    bits |= (raw & 0x80u) << 24;
    std::memcpy(out + i, &bits, 4);
  }
}

void widen_e4m3(const std::uint8_t* source, float* out) {
  widen_small<3, 254 - 7, 0x7f>(source, out);
}

void widen_e5m2(const std::uint8_t* source, float* out) {
  widen_small<2, 254 - 15, 0x7c>(source, out);
}
#endif

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

constexpr MmaKernels kKernels = {multiply,
                                 fused_f64,
                                 transpose_widen<HalfFormat>,
                                 transpose_widen<BfloatFormat>,
                                 widen<HalfFormat>,
                                 widen<BfloatFormat>,
                                 widen_chunk<HalfFormat>,
                                 widen_chunk<BfloatFormat>,
                                 widen_e4m3,
                                 widen_e5m2,
                                 narrow_f16,
                                 transpose_halves,
                                 transpose_bytes,
                                 fragment_to_columns,
                                 columns_to_fragment};

}  // namespace
