#include "machine/tensor/element.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace sglab::emu {
namespace {

enum class Specials : std::uint8_t {
  kIeee,    // the top exponent holds infinity and NaN
  kOneNan,  // only the all-ones code is NaN, no infinity (e4m3, ue4m3)
  kNone,    // every code is a number (e3m2, e2m3, e2m1)
};

// A binary floating-point format of at most 16 bits: sign, exponent, mantissa from high to low.
struct MiniFloat {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Specials specials;
  bool is_signed;
};

constexpr MiniFloat kHalf{5, 10, 15, Specials::kIeee, true};
constexpr MiniFloat kBfloat{8, 7, 127, Specials::kIeee, true};
constexpr MiniFloat kE4m3Format{4, 3, 7, Specials::kOneNan, true};
constexpr MiniFloat kE5m2Format{5, 2, 15, Specials::kIeee, true};
constexpr MiniFloat kE3m2Format{3, 2, 3, Specials::kNone, true};
constexpr MiniFloat kE2m3Format{2, 3, 1, Specials::kNone, true};
constexpr MiniFloat kE2m1Format{2, 1, 1, Specials::kNone, true};
constexpr MiniFloat kUe4m3Format{4, 3, 7, Specials::kOneNan, false};

const MiniFloat* mini_float(ElementType type) {
  switch (type) {
    case ElementType::kF16:
      return &kHalf;
    case ElementType::kBf16:
      return &kBfloat;
    case ElementType::kE4m3:
      return &kE4m3Format;
    case ElementType::kE5m2:
      return &kE5m2Format;
    case ElementType::kE3m2:
      return &kE3m2Format;
    case ElementType::kE2m3:
      return &kE2m3Format;
    case ElementType::kE2m1:
      return &kE2m1Format;
    case ElementType::kUe4m3:
      return &kUe4m3Format;
    default:
      return nullptr;
  }
}

float decode_mini(const MiniFloat& format, std::uint32_t raw) {
  const std::uint32_t mantissa_mask = (1u << format.mantissa_bits) - 1;
  const std::uint32_t exponent_mask = (1u << format.exponent_bits) - 1;
  const std::uint32_t mantissa = raw & mantissa_mask;
  const std::uint32_t exponent = (raw >> format.mantissa_bits) & exponent_mask;
  const bool negative = format.is_signed && ((raw >> (format.mantissa_bits + format.exponent_bits)) & 1u);
  const bool top = exponent == exponent_mask;
  float magnitude;
  if (top && format.specials == Specials::kIeee) {
    // A NaN keeps its payload at the top of the wider mantissa.
    return bits_to_float((negative ? 0x80000000u : 0u) | 0x7f800000u |
                         (mantissa << (23 - format.mantissa_bits)));
  }
  if (top && format.specials == Specials::kOneNan && mantissa == mantissa_mask) {
    return bits_to_float((negative ? 0x80000000u : 0u) | 0x7fc00000u);
  }
  if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), 1 - format.bias - format.mantissa_bits);
  } else {
    magnitude = std::ldexp(static_cast<float>(mantissa | (1u << format.mantissa_bits)),
                           static_cast<int>(exponent) - format.bias - format.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

std::uint32_t largest_finite(const MiniFloat& format) {
  const std::uint32_t all = (1u << (format.exponent_bits + format.mantissa_bits)) - 1;
  if (format.specials == Specials::kIeee) return all - (1u << format.mantissa_bits);
  return format.specials == Specials::kOneNan ? all - 1 : all;
}

std::uint32_t nan_code(const MiniFloat& format) {
  const std::uint32_t all = (1u << (format.exponent_bits + format.mantissa_bits)) - 1;
  return format.specials == Specials::kNone ? largest_finite(format) : all;
}

std::uint32_t encode_mini(const MiniFloat& format, float value, bool saturate) {
  const std::uint32_t bits = float_to_bits(value);
  const std::uint32_t sign =
      format.is_signed ? (bits >> 31) << (format.exponent_bits + format.mantissa_bits) : 0u;
  if (std::isnan(value))
    return format.specials == Specials::kNone ? largest_finite(format) : nan_code(format);
  if (!format.is_signed && (bits >> 31)) return 0;
  const std::uint32_t limit = largest_finite(format);
  const std::uint32_t overflow = saturate || format.specials == Specials::kNone ? limit
                                 : format.specials == Specials::kIeee           ? limit + 1
                                                                                : nan_code(format);
  const float magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | overflow;
  if (magnitude == 0.0f) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = f * 2^exponent, f in [0.5, 1)
  const int smallest = 1 - format.bias;
  const int unit = (exponent - 1 < smallest ? smallest : exponent - 1) - format.mantissa_bits;
  // Scaling by a power of two is exact in double, so the one rounding is to nearest even here.
  const double scaled = std::nearbyint(std::ldexp(static_cast<double>(magnitude), -unit));
  const std::int64_t steps = static_cast<std::int64_t>(scaled);
  const std::int64_t base = static_cast<std::int64_t>(unit + format.mantissa_bits - smallest)
                            << format.mantissa_bits;
  // Codes of one sign are consecutive integers, so a carry out of the mantissa lands on the next exponent.
  const std::int64_t code = base + steps;
  return sign | (code > static_cast<std::int64_t>(limit) ? overflow : static_cast<std::uint32_t>(code));
}

// A power of two: rounds toward zero, the rounding that cvt offers besides rounding up.
std::uint32_t encode_ue8m0(float value) {
  if (std::isnan(value)) return 255;
  if (!(value > 0.0f)) return 0;
  if (std::isinf(value)) return 254;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int code = exponent - 1 + 127;
  return static_cast<std::uint32_t>(code < 0 ? 0 : code > 254 ? 254 : code);
}

std::int32_t sign_extend(std::uint32_t raw, int bits) {
  return static_cast<std::int32_t>(raw << (32 - bits)) >> (32 - bits);
}

std::uint32_t encode_integer(float value, double low, double high, int bits) {
  const double rounded = std::isnan(value) ? 0.0 : std::nearbyint(static_cast<double>(value));
  const double clamped = rounded < low ? low : rounded > high ? high : rounded;
  return static_cast<std::uint32_t>(static_cast<std::int64_t>(clamped)) & ((1ull << bits) - 1);
}

}  // namespace

std::string_view element_name(ElementType type) {
  constexpr std::string_view kNames[] = {"f16",  "bf16", "tf32", "f32",  "f64",   "e4m3",
                                         "e5m2", "e3m2", "e2m3", "e2m1", "ue8m0", "ue4m3",
                                         "s8",   "u8",   "s4",   "u4",   "b1",    "s32"};
  return kNames[static_cast<int>(type)];
}

int element_bits(ElementType type) {
  constexpr std::uint8_t kBits[] = {16, 16, 32, 32, 64, 8, 8, 6, 6, 4, 8, 8, 8, 8, 4, 4, 1, 32};
  return kBits[static_cast<int>(type)];
}

float decode_element(ElementType type, std::uint32_t raw) {
  if (const MiniFloat* format = mini_float(type)) return decode_mini(*format, raw);
  switch (type) {
    case ElementType::kTf32:
      return bits_to_float(raw & 0xffffe000u);
    case ElementType::kUe8m0:
      return (raw & 0xff) == 255 ? std::numeric_limits<float>::quiet_NaN()
                                 : std::ldexp(1.0f, static_cast<int>(raw & 0xff) - 127);
    case ElementType::kS8:
      return static_cast<float>(sign_extend(raw, 8));
    case ElementType::kS4:
      return static_cast<float>(sign_extend(raw, 4));
    case ElementType::kU8:
      return static_cast<float>(raw & 0xff);
    case ElementType::kU4:
      return static_cast<float>(raw & 0xf);
    case ElementType::kB1:
      return static_cast<float>(raw & 1);
    case ElementType::kS32:
      return static_cast<float>(static_cast<std::int32_t>(raw));
    default:
      return bits_to_float(raw);
  }
}

std::uint32_t encode_element(ElementType type, float value, bool saturate) {
  if (const MiniFloat* format = mini_float(type)) return encode_mini(*format, value, saturate);
  switch (type) {
    case ElementType::kTf32: {
      const std::uint32_t bits = float_to_bits(value);
      if (std::isnan(value) || std::isinf(value)) return bits & 0xffffe000u;
      return (bits + 0xfffu + ((bits >> 13) & 1u)) & 0xffffe000u;
    }
    case ElementType::kUe8m0:
      return encode_ue8m0(value);
    case ElementType::kS8:
      return encode_integer(value, -128, 127, 8);
    case ElementType::kU8:
      return encode_integer(value, 0, 255, 8);
    case ElementType::kS4:
      return encode_integer(value, -8, 7, 4);
    case ElementType::kU4:
      return encode_integer(value, 0, 15, 4);
    case ElementType::kB1:
      return encode_integer(value, 0, 1, 1);
    case ElementType::kS32:
      return encode_integer(value, -2147483648.0, 2147483647.0, 32);
    default:
      return float_to_bits(value);
  }
}

const float* byte_decode_table(ElementType type) {
  constexpr int kTypes = static_cast<int>(ElementType::kS32) + 1;
  static const auto tables = [] {
    std::array<std::array<float, 256>, kTypes> all{};
    for (int t = 0; t < kTypes; ++t) {
      const auto element = static_cast<ElementType>(t);
      if (element_bits(element) > 8) continue;
      const std::uint32_t mask = (1u << element_bits(element)) - 1;
      for (std::uint32_t raw = 0; raw < 256; ++raw) all[t][raw] = decode_element(element, raw & mask);
    }
    return all;
  }();
  return tables[static_cast<int>(type)].data();
}

}  // namespace sglab::emu
