#pragma once

#include "machine/float/mode.hpp"
#include "machine/ops/lanes.hpp"

// Floating-point pieces shared by the families. All are branch-free, so that loops over lanes vectorise, and
// give the same bits for any instruction set they are compiled for. The host rounds to nearest and keeps
// subnormal numbers (see float/environment.hpp); other directions and flushing are computed.
namespace sglab::emu::SGLAB_ISA {

inline std::uint32_t bits_of(float f) {
  return __builtin_bit_cast(std::uint32_t, f);
}
inline std::uint64_t bits_of(double f) {
  return __builtin_bit_cast(std::uint64_t, f);
}
inline float float_of(std::uint32_t b) {
  return __builtin_bit_cast(float, b);
}
inline double double_of(std::uint64_t b) {
  return __builtin_bit_cast(double, b);
}

constexpr std::uint32_t kNan32 = 0x7fffffff;
constexpr std::uint64_t kNan64 = 0xfff8000000000000;
constexpr std::uint64_t kQuiet64 = 0x0008000000000000;
constexpr std::uint16_t kNan16 = 0x7fff;

// f32 arithmetic returns one NaN, regardless of its operands' payloads.
inline float canonical(float f) {
  return f == f ? f : float_of(kNan32);
}

inline double quieted(double f) {
  return double_of(bits_of(f) | kQuiet64);
}

// f64 arithmetic, unlike f32, propagates an operand's NaN, quieted: the last one here that is a NaN. Where
// none is, a new one is negative.
template <class... Operands>
inline double propagated(double result, Operands... operands) {
  double nan = double_of(kNan64);
  ((nan = operands == operands ? nan : quieted(operands)), ...);
  return result == result ? result : nan;
}

// In integers: compilers make one condition of two floating-point ones that follow each other, and masks of
// that.
inline float flush(float f) {
  const std::uint32_t bits = bits_of(f);
  const auto normal = static_cast<std::uint32_t>(
      static_cast<std::int32_t>((bits & 0x7f800000u) + 0x7fffffffu) >> 31);  // all ones, or zero
  return float_of(bits & (normal | 0x80000000u));
}

// NaN gives +0.
inline float clamp01(float f) {
  const float positive = f > 0.0f ? f : 0.0f;
  return positive < 1.0f ? positive : 1.0f;
}

inline float f32_from_f16(std::uint16_t h) {
  const std::uint32_t sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
  const std::uint32_t subnormal =
      bits_of(static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  std::uint32_t bits = (magnitude << 13) + (112u << 23);
  bits = magnitude >= 0x7c00 ? bits + (112u << 23) : bits;
  bits = magnitude < 0x0400 ? subnormal : bits;
  return float_of(sign | bits);
}

// Nearest even. NaN becomes 0x7fff.
inline std::uint16_t f16_from_f32(float f) {
  const std::uint32_t bits = bits_of(f), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  const std::uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  const std::uint32_t rounded = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : rounded;
  result = magnitude >= 0x47800000u ? 0x7c00u : result;
  return static_cast<std::uint16_t>(magnitude > 0x7f800000u ? kNan16 : (sign | result));
}

inline float f32_from_bf16(std::uint16_t h) {
  return float_of(static_cast<std::uint32_t>(h) << 16);
}

inline std::uint16_t bf16_from_f32(float f) {
  const std::uint32_t bits = bits_of(f);
  const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? kNan16 : rounded);
}

template <bool Bf>
inline float f32_from_half(std::uint16_t h) {
  return Bf ? f32_from_bf16(h) : f32_from_f16(h);
}
template <bool Bf>
inline std::uint16_t half_from_f32(float f) {
  return Bf ? bf16_from_f32(f) : f16_from_f32(f);
}

// a*b + c rounded to odd: a second rounding to fewer bits then gives what one rounding would have given.
inline float fma_to_odd(float a, float b, float c) {  // a*b must be exact
  const float p = a * b, s = p + c;
  const float t = s - p, e = (p - (s - t)) + (c - t);
  const std::uint32_t bits = bits_of(s);
  const bool away = ((bits_of(e) ^ bits) & 0x80000000u) == 0;
  const bool fix = e != 0.0f && e == e && (bits & 1u) == 0;
  return float_of(fix ? (away ? bits + 1 : bits - 1) : bits);
}

inline double fma_to_odd(double a, double b, double c) {
  const double p = a * b, s = p + c;
  const double t = s - p, e = (p - (s - t)) + (c - t);
  const std::uint64_t bits = bits_of(s);
  const bool away = ((bits_of(e) ^ bits) & 0x8000000000000000u) == 0;
  const bool fix = e != 0.0 && e == e && (bits & 1u) == 0;
  return double_of(fix ? (away ? bits + 1 : bits - 1) : bits);
}

inline float f32_to_odd(double d) {
  const float f = static_cast<float>(d);
  const double e = d - static_cast<double>(f);
  const std::uint32_t bits = bits_of(f);
  const bool away = (e < 0) == ((bits & 0x80000000u) != 0);
  const bool fix = e != 0.0 && e == e && (bits & 1u) == 0;
  return float_of(fix ? (away ? bits + 1 : bits - 1) : bits);
}

// a*b + c with one rounding.
inline float fused(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return static_cast<float>(
      fma_to_odd(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c)));
#endif
}

// From the f32 nearest to an exact value, or from the other neighbour of it, to the one on the side that
// `mode`, which is not kNearest, asks for. `excess` has the sign of the exact value minus `nearest`, which
// has the exact value's sign.
inline float directed(float nearest, double excess, unsigned mode) {
  const std::uint32_t bits = bits_of(nearest), sign = bits & 0x80000000u;
  // In f32, so that the lanes are of one width from here on.
  const double direction = excess > 0.0 ? 1.0 : excess < 0.0 ? -1.0 : 0.0;
  const float side = float_of(bits_of(static_cast<float>(direction)) ^ sign);
  const std::uint32_t above = side > 0.0f ? 1 : 0, below = side < 0.0f ? 1 : 0;
  const std::uint32_t outwards_above = mode == kUp, outwards_below = mode == kDown;
  const std::uint32_t outwards = sign != 0 ? outwards_below : outwards_above;
  return float_of(bits + (outwards != 0 ? above : 0 - below));
}

constexpr double kLeastNormal32 = 0x1p-126;

// Whether flushing f32 arithmetic takes the result for subnormal: when it would be one if exponents had no
// lower limit. `exact` may be rounded where that does not carry it over a number of 25 bits.
inline bool is_tiny(double exact, unsigned mode) {
  const double magnitude = __builtin_fabs(exact);
  const bool outwards = exact < 0 ? mode == kDown : mode == kUp;
  // What rounds up to the smallest normal number: from half of a last place below it, or from anything above
  // the number before it; last places there are 2^-150.
  const bool reaches = outwards ? magnitude > kLeastNormal32 - 0x1p-150
                                : mode == kNearest && magnitude >= kLeastNormal32 - 0x1p-151;
  return magnitude < kLeastNormal32 && !reaches;
}

// One rounding, in a direction other than to nearest, from f64 or from an exact value rounded to odd.
inline float narrowed(double exact, unsigned direction) {
  const float nearest = static_cast<float>(exact);
  return directed(nearest, exact - static_cast<double>(nearest), direction);
}

inline float flushed_if(bool tiny, float r) {
  return float_of(tiny ? bits_of(r) & 0x80000000 : bits_of(r));
}

// PTX min and max: a NaN loses against a number, -0 is less than +0.
template <bool Max>
inline float extreme(float a, float b) {
  const bool a_first = Max ? a > b : a < b;
  const bool zeros = a == b;
  const std::uint32_t same = Max ? bits_of(a) & bits_of(b) : bits_of(a) | bits_of(b);
  float r = a_first ? a : b;
  r = zeros ? float_of(same) : r;
  r = b == b ? r : a;
  r = a == a ? r : b;
  return canonical(r);
}

// 2^x and log2 in double precision: a f32 result of them is nearly always correctly rounded.

// A step of exp2_reduced. One rounding or two: over all 2^32 arguments of exp2_f32 no result differs.
inline double exp2_step(double p, double x, double coefficient) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fma(p, x, coefficient);
#else
  return p * x + coefficient;
#endif
}

inline double exp2_reduced(double x) {  // |x| <= 0.5
  double p = 1.0178086009239699e-07;
  p = exp2_step(p, x, 1.3215486790144305e-06);
  p = exp2_step(p, x, 1.5252733804059838e-05);
  p = exp2_step(p, x, 1.5403530393381608e-04);
  p = exp2_step(p, x, 1.3333558146428443e-03);
  p = exp2_step(p, x, 9.6181291076284769e-03);
  p = exp2_step(p, x, 5.5504108664821576e-02);
  p = exp2_step(p, x, 2.4022650695910069e-01);
  p = exp2_step(p, x, 6.9314718055994529e-01);
  return exp2_step(p, x, 1.0);
}

inline float exp2_f32(float f) {
  // In integers, for the reason that flush() has: magnitudes beyond 160 overflow or vanish all the same.
  const std::uint32_t bits = bits_of(f), magnitude = bits & 0x7fffffffu;
  const std::uint32_t near = magnitude < 0x43200000u ? magnitude : 0x43200000u;
  const double x = static_cast<double>(float_of(near | (bits & 0x80000000u)));
  const double shifted = x + 6755399441055744.0;  // 1.5 * 2^52: rounds to an integer, the last bits
  const double power = exp2_reduced(x - (shifted - 6755399441055744.0));
  const auto r = static_cast<float>(double_of(bits_of(power) + (bits_of(shifted) << 52)));
  return magnitude > 0x7f800000u ? float_of(kNan32) : r;
}

inline float log2_f32(float f) {
  // A subnormal is scaled to a normal number first; in flush mode it counts as zero.
  const bool small = bits_of(f) < 0x00800000u;
  const std::uint32_t raw = bits_of(f);
  const double scaled_small = static_cast<double>(static_cast<std::int32_t>(raw & 0x007fffffu)) * 0x1p-149;
  const double d = small ? scaled_small : static_cast<double>(f);
  const std::uint64_t bits = bits_of(d);
  const auto shifted = static_cast<std::int64_t>(bits - 0x3fe6a09e667f3bcdull) >> 52;  // sqrt(0.5)
  const double m = double_of(bits - (static_cast<std::uint64_t>(shifted) << 52));
  const double t = (m - 1.0) / (m + 1.0), t2 = t * t;
  double p = 2.0 / 19;
  for (int k = 17; k >= 1; k -= 2) p = p * t2 + 2.0 / k;
  float r = static_cast<float>(static_cast<double>(shifted) + p * t * 1.4426950408889634);
  r = raw == 0x7f800000u ? f : r;
  r = (raw & 0x7fffffffu) == 0 ? float_of(0xff800000u) : r;
  r = (raw & 0x7fffffffu) > 0x7f800000u || raw > 0x80000000u ? float_of(kNan32) : r;
  return r;
}

}  // namespace sglab::emu::SGLAB_ISA
