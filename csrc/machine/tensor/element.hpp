#pragma once

#include <cstdint>
#include <string_view>

namespace sglab::emu {

// Element types that tensor cores and TMA know. Sub-byte types keep their bits in the low end of a raw value.
enum class ElementType : std::uint8_t {
  kF16,
  kBf16,
  kTf32,
  kF32,
  kF64,
  kE4m3,
  kE5m2,
  kE3m2,
  kE2m3,
  kE2m1,
  kUe8m0,
  kUe4m3,
  kS8,
  kU8,
  kS4,
  kU4,
  kB1,
  kS32,
};

std::string_view element_name(ElementType type);

// Significant bits of one element; tf32 counts its 32-bit container.
int element_bits(ElementType type);

// The exact value of a raw element. tf32 ignores its container's 13 low bits, as the tensor core does.
float decode_element(ElementType type, std::uint32_t raw);

// Rounds to nearest even. Types without infinity take overflow and infinity to their largest finite value
// when `saturate` is set, else to NaN; types without NaN take NaN to their largest finite value (as cvt
// does).
std::uint32_t encode_element(ElementType type, float value, bool saturate);

inline float bits_to_float(std::uint32_t bits) {
  return __builtin_bit_cast(float, bits);
}
inline std::uint32_t float_to_bits(float value) {
  return __builtin_bit_cast(std::uint32_t, value);
}

// 256 decoded values of an 8-bit-or-smaller type, indexed by the raw byte's low bits.
const float* byte_decode_table(ElementType type);

}  // namespace sglab::emu
