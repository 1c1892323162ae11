// Conversions between the formats of tensors and float.

#pragma once

#include "cpu_attention/isa/vector.hpp"

namespace sglab::cpu_attention {
namespace {

typedef std::uint16_t Halves __attribute__((vector_size(kLanes * 2)));
typedef std::uint8_t Octets __attribute__((vector_size(kLanes)));

inline Bits widened(const std::uint16_t* source) {
  return __builtin_convertvector(load_as<Halves>(source), Bits);
}
inline Bits widened(const std::uint8_t* source) {
  return __builtin_convertvector(load_as<Octets>(source), Bits);
}

// A small float of any format with `kMantissa` bits of mantissa and a bias of 127 - kRebias, its sign apart:
// its bits at float's place, times 2^kRebias. Subnormals come out right, too.
template <int kMantissa, int kRebias>
inline Vec rebiased(Bits magnitude) {
  const float factor = kRebias == 112 ? 0x1p112f : 0x1p120f;
  return (Vec)(magnitude << (23 - kMantissa)) * factor;
}

template <Element kElement>
struct Format;

template <>
struct Format<Element::kF32> {
  typedef float Stored;
  static Vec read(const float* source) { return load(source); }
};
template <>
struct Format<Element::kBf16> {
  typedef std::uint16_t Stored;
  static Vec read(const std::uint16_t* source) { return (Vec)(widened(source) << 16); }
};
template <>
struct Format<Element::kF16> {
  typedef std::uint16_t Stored;
  static Vec read(const std::uint16_t* source) {
#if defined(__AVX512F__) && defined(__AVX512BW__)
    return (Vec)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(source)));
#elif defined(__AVX2__) && defined(__F16C__)
    return (Vec)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
#endif
    const Bits bits = widened(source), magnitude = bits & 0x7fff;
    const Vec value = rebiased<10, 112>(magnitude);
    const Ints special = (Ints)(magnitude >= 0x7c00);
    const Bits rest = (Bits)select(special, (Vec)((magnitude << 13) | 0x7f800000u), value);
    return (Vec)(rest | (bits & 0x8000) << 16);
  }
};
template <>
struct Format<Element::kE5m2> {
  typedef std::uint8_t Stored;
  static Vec read(const std::uint8_t* source) {
    const Bits bits = widened(source), magnitude = bits & 0x7f;
    const Vec value = rebiased<2, 112>(magnitude);
    const Ints special = (Ints)(magnitude >= 0x7c);
    const Bits rest = (Bits)select(special, (Vec)((magnitude << 21) | 0x7f800000u), value);
    return (Vec)(rest | (bits & 0x80) << 24);
  }
};
template <>
struct Format<Element::kE4m3> {
  typedef std::uint8_t Stored;
  static Vec read(const std::uint8_t* source) {
    const Bits bits = widened(source), magnitude = bits & 0x7f;
    const Vec value = rebiased<3, 120>(magnitude);
    const Bits rest = (Bits)select((Ints)(magnitude == 0x7f), (Vec)(Bits{} + 0x7fc00000u), value);
    return (Vec)(rest | (bits & 0x80) << 24);
  }
};

template <Element kElement>
void widen_as(const std::uint8_t* source, float* target, int count) {
  typedef typename Format<kElement>::Stored Stored;
  const Stored* const from = reinterpret_cast<const Stored*>(source);
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) store(target + i, Format<kElement>::read(from + i));
  if (i < count) {
    Stored rest[kLanes] = {};
    std::memcpy(rest, from + i, (count - i) * sizeof(Stored));
    const Vec value = Format<kElement>::read(rest);
    std::memcpy(target + i, &value, (count - i) * 4);
  }
}

// `count` elements as floats.
void widen(Element element, const std::uint8_t* source, float* target, int count) {
  switch (element) {
    case Element::kF32:
      std::memcpy(target, source, count * 4);
      return;
    case Element::kF16:
      return widen_as<Element::kF16>(source, target, count);
    case Element::kBf16:
      return widen_as<Element::kBf16>(source, target, count);
    case Element::kE4m3:
      return widen_as<Element::kE4m3>(source, target, count);
    case Element::kE5m2:
      return widen_as<Element::kE5m2>(source, target, count);
  }
}

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

// To nearest even; NaN stays NaN.
inline Bits rounded_bf16(Vec value) {
  const Bits bits = (Bits)value;
  const Bits rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return (Bits)select((Ints)(value != value), (Vec)(Bits{} + 0x7fc0u), (Vec)rounded);
}

inline std::uint16_t half_of(float value) {
  const std::uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<std::uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000) return static_cast<std::uint16_t>(sign | 0x7c00);
  if (magnitude < 0x38800000) {  // adding 2^-1 rounds at the last place of the subnormals, 2^-24
    const std::uint32_t rounded = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    return static_cast<std::uint16_t>(sign | rounded);
  }
  const std::uint32_t rounded = magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1);
  return static_cast<std::uint16_t>(sign | rounded >> 13);
}

void narrow(Element element, const float* source, std::uint8_t* target, int count) {
  if (element == Element::kF32) {
    std::memcpy(target, source, count * 4);
    return;
  }
  std::uint16_t* const halves = reinterpret_cast<std::uint16_t*>(target);
  int i = 0;
  if (element == Element::kF16) {
    for (; i < count; ++i) halves[i] = half_of(source[i]);
    return;
  }
  for (; i + kLanes <= count; i += kLanes) {
    store(halves + i, __builtin_convertvector(rounded_bf16(load(source + i)), Halves));
  }
  for (; i < count; ++i) halves[i] = static_cast<std::uint16_t>(rounded_bf16(splat(source[i]))[0]);
}

}  // namespace
}  // namespace sglab::cpu_attention
