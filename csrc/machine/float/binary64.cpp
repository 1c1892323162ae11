#include "machine/float/binary64.hpp"

#include <bit>
#include <cmath>

#include "machine/float/mode.hpp"

namespace sglab::emu::binary64 {
namespace {

using u64 = std::uint64_t;
__extension__ using u128 = unsigned __int128;

constexpr int kFraction = 52, kLowest = -1022;  // fraction bits; exponent of the smallest normal number
constexpr u64 kInfinity = u64{0x7ff} << kFraction, kSign = u64{1} << 63;

// A number other than zero: ± significand * 2^exponent. Where bits were cut off below the lowest one, that
// one is set ("sticky"), which no later rounding to fewer bits can distinguish from the exact value.
struct Exact {
  bool negative;
  int exponent;
  u128 significand;
};

int length(u128 v) {
  const auto high = static_cast<u64>(v >> 64);
  return high != 0 ? 128 - std::countl_zero(high) : 64 - std::countl_zero(static_cast<u64>(v));
}

u128 shifted_right(u128 v, int by) {
  if (by <= 0) return v;
  if (by > 127) return v != 0;
  return v >> by | ((v & ((u128{1} << by) - 1)) != 0);
}

Exact exact(double v) {
  const u64 bits = std::bit_cast<u64>(v);
  const int field = static_cast<int>(bits >> kFraction & 0x7ff);
  const u64 fraction = bits & ((u64{1} << kFraction) - 1);
  return {(bits & kSign) != 0, (field == 0 ? 1 : field) - 1023 - kFraction,
          field == 0 ? fraction : fraction | u64{1} << kFraction};
}

// The leading bit at 125: one bit is free above it for a sum.
Exact normalised(Exact v) {
  const int by = 126 - length(v.significand);
  return {v.negative, v.exponent - by, v.significand << by};
}

double zero(bool negative) {
  return std::bit_cast<double>(negative ? kSign : u64{0});
}

double rounded(const Exact& v, unsigned mode) {
  const int leading = v.exponent + length(v.significand) - 1;
  const int scale = leading < kLowest ? kLowest : leading;
  const int cut = scale - kFraction - v.exponent;  // bits below the result's last one
  u64 kept;
  bool increment = false;
  if (cut <= 0) {
    kept = static_cast<u64>(v.significand << -cut);
  } else {
    // Two more bits than the result has: half of its last place, and whether anything is below.
    const u128 wide = cut > 2 ? shifted_right(v.significand, cut - 2) : v.significand << (2 - cut);
    kept = static_cast<u64>(wide >> 2);
    const unsigned rest = static_cast<unsigned>(wide) & 3u;
    if (mode == kNearest) increment = rest > 2 || (rest == 2 && (kept & 1u) != 0);
    if (mode == kUp) increment = rest != 0 && !v.negative;
    if (mode == kDown) increment = rest != 0 && v.negative;
  }
  // The hidden bit, if there is one, adds itself to the exponent field, and so does a carry.
  u64 code = (static_cast<u64>(scale - kLowest) << kFraction) + kept + increment;
  if (scale > 1023 || code >= kInfinity) {
    const bool inwards = mode == kTowardZero || mode == (v.negative ? kUp : kDown);
    code = inwards ? kInfinity - 1 : kInfinity;
  }
  return std::bit_cast<double>(code | (v.negative ? kSign : 0));
}

Exact product(const Exact& a, const Exact& b) {
  return {a.negative != b.negative, a.exponent + b.exponent, a.significand * b.significand};
}

double sum(const Exact& left, const Exact& right, unsigned mode) {
  Exact a = normalised(left), b = normalised(right);
  if (a.exponent < b.exponent || (a.exponent == b.exponent && a.significand < b.significand)) {
    const Exact larger = b;
    b = a, a = larger;
  }
  const u128 aligned = shifted_right(b.significand, a.exponent - b.exponent);
  a.significand = a.negative == b.negative ? a.significand + aligned : a.significand - aligned;
  return a.significand == 0 ? zero(mode == kDown) : rounded(a, mode);
}

}  // namespace

double add(double a, double b, unsigned mode) {
  if (!std::isfinite(a) || !std::isfinite(b)) return a + b;
  if (a == 0.0 && b == 0.0) {
    const bool both = std::signbit(a) && std::signbit(b), either = std::signbit(a) || std::signbit(b);
    return zero(mode == kDown ? either : both);
  }
  if (a == 0.0 || b == 0.0) return a == 0.0 ? b : a;
  return sum(exact(a), exact(b), mode);
}

double multiply(double a, double b, unsigned mode) {
  if (!std::isfinite(a) || !std::isfinite(b) || a == 0.0 || b == 0.0) return a * b;
  return rounded(product(exact(a), exact(b)), mode);
}

double fused(double a, double b, double c, unsigned mode) {
  if (!std::isfinite(a) || !std::isfinite(b)) return a * b + c;
  if (!std::isfinite(c)) return c;
  if (a == 0.0 || b == 0.0) return add(a * b, c, mode);
  const Exact p = product(exact(a), exact(b));
  return c == 0.0 ? rounded(p, mode) : sum(p, exact(c), mode);
}

double divide(double a, double b, unsigned mode) {
  if (!std::isfinite(a) || !std::isfinite(b) || a == 0.0 || b == 0.0) return a / b;
  const Exact x = normalised(exact(a)), y = exact(b);
  const u128 quotient = x.significand / y.significand;
  const bool remainder = quotient * y.significand != x.significand;
  return rounded({x.negative != y.negative, x.exponent - y.exponent, quotient | remainder}, mode);
}

double square_root(double a, unsigned mode) {
  if (!std::isfinite(a) || a <= 0.0) return std::sqrt(a);
  Exact x = normalised(exact(a));
  if (x.exponent % 2 != 0) x.significand >>= 1, ++x.exponent;  // its low bits are zero
  u128 root = 0;
  for (int bit = 62; bit >= 0; --bit) {
    const u128 next = root | u128{1} << bit;
    if (next * next <= x.significand) root = next;
  }
  const bool remainder = root * root != x.significand;
  return rounded({false, x.exponent / 2 - 1, root << 1 | remainder}, mode);
}

double from_integer(bool negative, std::uint64_t magnitude, unsigned mode) {
  return magnitude == 0 ? 0.0 : rounded({negative, 0, magnitude}, mode);
}

}  // namespace sglab::emu::binary64
