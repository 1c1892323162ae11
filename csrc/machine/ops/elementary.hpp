#pragma once

#include "machine/ops/floating.hpp"

// sin, cos and tanh of f32 in double precision, from sums and products alone: libraries differ from host to
// host. Results are nearly always correctly rounded.
namespace sglab::emu::SGLAB_ISA {

// x = quadrant * pi / 2 + rest, with |rest| up to pi / 4; the quadrant modulo 4.
struct Reduced {
  std::uint32_t quadrant;
  double rest;
};

// pi / 2 in three parts of 33 bits: multiples of the first two are exact. For |x| up to 2^16.
inline Reduced reduce_moderate(double x) {
  const double shifted = x * 0.63661977236758138 + 6755399441055744.0;  // 1.5 * 2^52: rounds to an integer
  const double n = shifted - 6755399441055744.0;
  const double rest = ((x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2ep-69;
  return {static_cast<std::uint32_t>(bits_of(shifted)) & 3u, rest};
}

// With as many bits of 2 / pi as matter modulo 4 (Payne and Hanek), for finite |x| from 2^16 on.
inline Reduced reduce_great(float x) {
  __extension__ using u128 = unsigned __int128;
  constexpr std::uint32_t kBits[] = {0x00000000, 0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                     0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561};
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t significand = (bits & 0x007fffff) | 0x00800000;
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 150;  // x = significand * 2^exponent
  const int at = exponent - 2 + 32, word = at / 32, shift = at % 32;
  u128 window = 0;
  for (int k = 0; k < 4; ++k) window = window << 32 | kBits[word + k];
  if (shift != 0) window = window << shift | kBits[word + 4] >> (32 - shift);
  const u128 turns = window * significand;  // quarter turns times 2^126, modulo 4
  const auto quadrant = static_cast<std::uint32_t>((turns + (u128{1} << 125)) >> 126);
  u128 fraction = turns - (static_cast<u128>(quadrant) << 126);
  const bool below = fraction >> 127 != 0;
  if (below) fraction = 0 - fraction;
  const auto high = static_cast<std::uint64_t>(fraction >> 64), low = static_cast<std::uint64_t>(fraction);
  const double magnitude =
      (static_cast<double>(high) * 0x1p64 + static_cast<double>(low)) * 0x1p-126 * 1.5707963267948966;
  const bool negative = bits >> 31 != 0;
  return {(negative ? 0 - quadrant : quadrant) & 3u, below != negative ? -magnitude : magnitude};
}

inline double sine_near_zero(double x) {
  const double t = x * x;
  double p = -1.0 / 1307674368000.0;
  p = p * t + 1.0 / 6227020800.0;
  p = p * t - 1.0 / 39916800.0;
  p = p * t + 1.0 / 362880.0;
  p = p * t - 1.0 / 5040.0;
  p = p * t + 1.0 / 120.0;
  p = p * t - 1.0 / 6.0;
  return x + x * t * p;
}

inline double cosine_near_zero(double x) {
  const double t = x * x;
  double p = 1.0 / 20922789888000.0;
  p = p * t - 1.0 / 87178291200.0;
  p = p * t + 1.0 / 479001600.0;
  p = p * t - 1.0 / 3628800.0;
  p = p * t + 1.0 / 40320.0;
  p = p * t - 1.0 / 720.0;
  p = p * t + 1.0 / 24.0;
  p = p * t - 0.5;
  return 1.0 + t * p;
}

// The sine `quarters` quarter turns further on.
inline float sine_from(float f, std::uint32_t quarters) {
  const float magnitude = __builtin_fabsf(f);
  if (!(magnitude < float_of(0x7f800000u))) return float_of(kNan32);
  const Reduced x = magnitude <= 0x1p16f ? reduce_moderate(static_cast<double>(f)) : reduce_great(f);
  const std::uint32_t quadrant = x.quadrant + quarters;
  const double r = quadrant & 1u ? cosine_near_zero(x.rest) : sine_near_zero(x.rest);
  return static_cast<float>(quadrant & 2u ? -r : r);
}

inline float sine(float f) {
  return f == 0.0f ? f : sine_from(f, 0);
}
inline float cosine(float f) {
  return sine_from(f, 1);
}

inline float hyperbolic(float f) {
  const double x = static_cast<double>(__builtin_fabsf(f)), t = x * x;
  double small = -1382.0 / 155925.0;
  small = small * t + 62.0 / 2835.0;
  small = small * t - 17.0 / 315.0;
  small = small * t + 2.0 / 15.0;
  small = small * t - 1.0 / 3.0;
  small = x + x * t * small;
  // (e^2x - 1) / (e^2x + 1), and 1 from where no f32 lies between.
  const double power = (x < 20.0 ? x : 20.0) * 2.8853900817779268;  // 2 / ln 2
  const double shifted = power + 6755399441055744.0;
  const auto n = static_cast<std::int64_t>(bits_of(shifted)) - 0x4338000000000000;
  const double y = (power - (shifted - 6755399441055744.0)) * 0.69314718055994531;
  double p = 1.0 / 479001600.0;
  p = p * y + 1.0 / 39916800.0;
  p = p * y + 1.0 / 3628800.0;
  p = p * y + 1.0 / 362880.0;
  p = p * y + 1.0 / 40320.0;
  p = p * y + 1.0 / 5040.0;
  p = p * y + 1.0 / 720.0;
  p = p * y + 1.0 / 120.0;
  p = p * y + 1.0 / 24.0;
  p = p * y + 1.0 / 6.0;
  p = p * y + 0.5;
  p = p * y + 1.0;
  p = p * y + 1.0;
  const double e = p * double_of(static_cast<std::uint64_t>(n + 1023) << 52);
  const double great = (e - 1.0) / (e + 1.0);
  const auto r = static_cast<float>(x < 0.1 ? small : great);
  return f == f ? float_of((bits_of(f) & 0x80000000u) | bits_of(r)) : float_of(kNan32);
}

}  // namespace sglab::emu::SGLAB_ISA
