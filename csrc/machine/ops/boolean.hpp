#pragma once

#include <cstdint>

// What a result is combined with, in Inst::imm.
namespace sglab::emu {

// A comparison of setp and set, with predicate Inst::c.
enum Boolean : std::int64_t { kNoBoolean, kBooleanAnd, kBooleanOr, kBooleanXor, kBooleanMask = 3 };

// Beside a lop3's table: d != 0 is combined by `or`, not by `and`.
constexpr std::int64_t kTableOr = 0x100;

}  // namespace sglab::emu
