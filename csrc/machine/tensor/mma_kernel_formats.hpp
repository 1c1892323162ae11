// Compiled once per instruction set by way of mma_kernel_impl.hpp, which says why all is in an unnamed
// namespace.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// Elements between their formats and fp32.
namespace sglab::emu {
namespace {

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
#if defined(__AVX2__)
  static void widen16(__m256i halves, float* out) {
#if defined(__AVX512F__)
    _mm512_storeu_ps(out, _mm512_cvtph_ps(halves));
#else
    _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm256_castsi256_si128(halves)));
    _mm256_storeu_ps(out + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1)));
#endif
  }
#endif
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
#if defined(__AVX2__)
  static void widen16(__m256i halves, float* out) {
    std::uint16_t words[16];
    std::memcpy(words, &halves, 32);
    widen8(words, out);
    widen8(words + 8, out + 8);
  }
#endif
};

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

template <typename Format>
void widen_runs(const std::uint8_t* smem, const std::uint32_t* addresses, int runs, std::uint32_t chunks,
                float* out, std::int64_t stride) {
  const auto each = [=](std::uint32_t count) {
    for (int run = 0; run < runs; ++run) {
      float* target = out + run * stride;
      for (std::uint32_t i = 0; i < count; ++i)
        widen_chunk<Format>(smem + (addresses[run] ^ 16 * i), target + 8 * i);
    }
  };
  // Those of 32 and of 128 bytes have loops of known length.
  if (chunks == 2) return each(2);
  if (chunks == 8) return each(8);
  each(chunks);
}

template <typename Format>
void widen_pairs(const std::uint32_t* words, int count, float* low, float* high) {
  for (int i = 0; i < count; i += 8) {
    std::uint16_t lower[8], upper[8];
    for (int j = 0; j < 8; ++j) {
      lower[j] = static_cast<std::uint16_t>(words[i + j]);
      upper[j] = static_cast<std::uint16_t>(words[i + j] >> 16);
    }
    Format::widen8(lower, low + i);
    Format::widen8(upper, high + i);
  }
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

}  // namespace
}  // namespace sglab::emu
