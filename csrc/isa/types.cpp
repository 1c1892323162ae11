#include "isa/types.hpp"

#include <array>

namespace sglab::emu {
namespace {

struct TypeName {
  std::string_view name;
  Type type;
  unsigned bytes;
};

constexpr std::array<TypeName, 22> kTypes{{
    {"", Type::kNone, 0},         {"pred", Type::kPred, 1},   {"b8", Type::kB8, 1},
    {"b16", Type::kB16, 2},       {"b32", Type::kB32, 4},     {"b64", Type::kB64, 8},
    {"b128", Type::kB128, 16},    {"u8", Type::kU8, 1},       {"u16", Type::kU16, 2},
    {"u32", Type::kU32, 4},       {"u64", Type::kU64, 8},     {"s8", Type::kS8, 1},
    {"s16", Type::kS16, 2},       {"s32", Type::kS32, 4},     {"s64", Type::kS64, 8},
    {"f16", Type::kF16, 2},       {"f16x2", Type::kF16x2, 4}, {"bf16", Type::kBf16, 2},
    {"bf16x2", Type::kBf16x2, 4}, {"f32", Type::kF32, 4},     {"f32x2", Type::kF32x2, 8},
    {"f64", Type::kF64, 8},
}};

constexpr const TypeName& row(Type type) {
  return kTypes[static_cast<std::size_t>(type)];
}

constexpr bool rows_match_enum() {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<std::size_t>(kTypes[i].type) != i) return false;
  }
  return true;
}
static_assert(rows_match_enum());

}  // namespace

Type type_from_name(std::string_view name) {
  for (const TypeName& candidate : kTypes) {
    if (candidate.name == name) return candidate.type;
  }
  return Type::kNone;
}

std::string_view type_name(Type type) {
  return row(type).name;
}

unsigned type_bytes(Type type) {
  return row(type).bytes;
}

bool is_signed(Type type) {
  return type >= Type::kS8 && type <= Type::kS64;
}

bool is_float(Type type) {
  return type >= Type::kF16;
}

bool is_packed(Type type) {
  return type == Type::kF16x2 || type == Type::kBf16x2 || type == Type::kF32x2;
}

}  // namespace sglab::emu
