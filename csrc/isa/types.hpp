#pragma once

#include <cstdint>
#include <string_view>

namespace sglab::emu {

// PTX fundamental types, as far as registers, variables and memory operands can have them.
enum class Type : std::uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBf16,
  kBf16x2,
  kF32,
  kF32x2,
  kF64,
};

// kNone for an unknown name. Names come without the dot: "u32".
Type type_from_name(std::string_view name);
std::string_view type_name(Type type);

// 1 for predicates, which live in masks, not in bytes.
unsigned type_bytes(Type type);
bool is_signed(Type type);
bool is_float(Type type);
bool is_packed(Type type);  // two values

enum class Space : std::uint8_t { kReg, kGeneric, kGlobal, kShared, kLocal, kParam, kConst };

}  // namespace sglab::emu
