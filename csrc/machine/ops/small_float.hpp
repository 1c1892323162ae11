#pragma once

#include "machine/float/mode.hpp"
#include "machine/ops/floating.hpp"

// Narrow floating-point formats, encoded from and decoded to double with one rounding.
namespace sglab::emu::SGLAB_ISA {

struct SmallFormat {
  int exponent_bits;
  int mantissa_bits;
  bool infinities;  // IEEE style; otherwise the top exponent holds numbers
  bool nan;
  std::uint32_t nan_code;
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr std::uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  constexpr std::uint32_t infinity() const { return ((1u << exponent_bits) - 1) << mantissa_bits; }
  // The largest finite magnitude.
  constexpr std::uint32_t most() const { return infinities ? infinity() - 1 : nan ? sign() - 2 : sign() - 1; }
};

constexpr SmallFormat kFormatF16{5, 10, true, true, 0x7fff};
constexpr SmallFormat kFormatBf16{8, 7, true, true, 0x7fff};
constexpr SmallFormat kFormatE4m3{4, 3, false, true, 0x7f};
constexpr SmallFormat kFormatE5m2{5, 2, true, true, 0x7f};
constexpr SmallFormat kFormatE2m1{2, 1, false, false, 0x7};
constexpr SmallFormat kFormatE2m3{2, 3, false, false, 0x1f};
constexpr SmallFormat kFormatE3m2{3, 2, false, false, 0x1f};

// Formats of 8 bits and less, as Inst::imm names them, and a flag.
enum Code : std::int64_t { kE4m3, kE5m2, kE2m3, kE3m2, kE2m1, kCodes = 7, kRelu = 8 };

inline const SmallFormat& format_of(const Inst* i) {
  switch (i->imm & kCodes) {
    case kE4m3:
      return kFormatE4m3;
    case kE5m2:
      return kFormatE5m2;
    case kE2m3:
      return kFormatE2m3;
    case kE3m2:
      return kFormatE3m2;
    default:
      return kFormatE2m1;
  }
}

// `away` additionally rounds halfway cases away from zero (.rna). With satfinite, overflow gives the largest
// number.
inline std::uint32_t encode(const SmallFormat& f, double value, unsigned mode, bool satfinite,
                            bool away = false) {
  const std::uint64_t bits = bits_of(value);
  const bool negative = bits >> 63;
  const std::uint32_t sign = negative ? f.sign() : 0;
  const std::uint64_t magnitude = bits & 0x7fffffffffffffffull;
  if (magnitude > 0x7ff0000000000000ull) return f.nan ? f.nan_code : f.most();
  if (magnitude == 0) return sign;
  const bool infinite = magnitude == 0x7ff0000000000000ull;
  const bool down = (mode & kRoundMask) == kTowardZero || (mode & kRoundMask) == (negative ? kUp : kDown);
  const bool up = (mode & kRoundMask) == (negative ? kDown : kUp);
  const std::uint32_t top =
      satfinite || (down && !infinite && f.infinities) || !f.infinities ? f.most() : f.infinity();
  const std::uint32_t overflow = satfinite || f.infinities ? top : f.nan_code;
  if (infinite) return sign | overflow;
  int exponent = static_cast<int>(magnitude >> 52) - 1023;
  if (exponent < -1000) exponent = -1000;
  std::uint64_t significand = (magnitude & 0xfffffffffffffull) | 0x10000000000000ull;
  const int lowest = 1 - f.bias();
  int drop = 52 - f.mantissa_bits;
  if (exponent < lowest) drop += lowest - exponent, exponent = lowest;
  std::uint64_t kept = drop > 63 ? 0 : significand >> drop;
  const std::uint64_t rest = drop > 63 ? significand : significand & ((std::uint64_t{1} << drop) - 1);
  const std::uint64_t half = drop > 63 ? ~std::uint64_t{0} : std::uint64_t{1} << (drop - 1);
  bool increment = rest > half || (rest == half && (away || (kept & 1)));
  if (down) increment = false;
  if (up) increment = rest != 0;
  kept += increment;
  // The hidden bit, if there is one, adds itself to the exponent field.
  const std::uint64_t code = (static_cast<std::uint64_t>(exponent - lowest) << f.mantissa_bits) + kept;
  return sign | (code > f.most() ? overflow : static_cast<std::uint32_t>(code));
}

// cvt.rs: `random`, a fraction of `random_bits` bits, is added to what is cut off; a carry rounds up.
inline std::uint32_t encode_stochastic(const SmallFormat& f, double value, std::uint32_t random,
                                       int random_bits, bool satfinite) {
  const std::uint64_t bits = bits_of(value);
  const std::uint32_t sign = bits >> 63 ? f.sign() : 0;
  const std::uint64_t magnitude = bits & 0x7fffffffffffffffull;
  if (magnitude > 0x7ff0000000000000ull) return f.nan ? f.nan_code : f.most();
  const std::uint32_t overflow = satfinite || !f.infinities ? f.most() : f.infinity();
  if (magnitude == 0x7ff0000000000000ull) return sign | overflow;
  const int exponent = static_cast<int>(magnitude >> 52) - 1023;
  const int lowest = 1 - f.bias();
  const int short_of = exponent < lowest ? lowest - exponent : 0;
  const int drop = 52 - f.mantissa_bits + short_of;
  if (magnitude == 0 || drop - random_bits > 53) return sign;
  const std::uint64_t significand = (magnitude & 0xfffffffffffffull) | 0x10000000000000ull;
  const std::uint64_t fraction = significand >> (drop - random_bits);  // as far as the random bits reach
  const std::uint64_t kept = (fraction + random) >> random_bits;
  const std::uint64_t code =
      (static_cast<std::uint64_t>(exponent + short_of - lowest) << f.mantissa_bits) + kept;
  return sign | (code > f.most() ? overflow : static_cast<std::uint32_t>(code));
}

inline double decode(const SmallFormat& f, std::uint32_t code) {
  const bool negative = code & f.sign();
  const std::uint32_t magnitude = code & (f.sign() - 1);
  double value;
  if (f.infinities && magnitude >= f.infinity()) {
    value = magnitude == f.infinity() ? double_of(0x7ff0000000000000ull) : double_of(kNan64);
  } else if (f.nan && !f.infinities && magnitude == f.nan_code) {
    value = double_of(kNan64);
  } else {
    const int exponent = static_cast<int>(magnitude >> f.mantissa_bits);
    const std::uint32_t fraction = magnitude & ((1u << f.mantissa_bits) - 1);
    const int scale = (exponent == 0 ? 1 : exponent) - f.bias() - f.mantissa_bits;
    const std::uint32_t whole = exponent == 0 ? fraction : fraction | 1u << f.mantissa_bits;
    value = static_cast<double>(whole) * double_of(static_cast<std::uint64_t>(scale + 1023) << 52);
  }
  return negative ? -value : value;
}

}  // namespace sglab::emu::SGLAB_ISA
