#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/types.hpp"
#include "machine/engine/warp.hpp"
#include "machine/program/program.hpp"

namespace sglab::emu {

// What a lane about to execute an instruction must hold so that a breakpoint there counts.
struct Condition {
  enum class Compare : std::uint8_t { kEqual, kUnequal, kLess, kAtMost, kMore, kAtLeast };
  struct Place {
    Ref at = kConstantRef;  // of the register's lanes; kConstantRef: it holds no value there
    Type type = Type::kNone;
  };
  std::vector<Place> places;  // by instruction; empty: the lane's number is compared
  Compare compare = Compare::kEqual;
  bool is_float = false;  // the number was written as one: bits of no type are read as such
  std::int64_t whole = 0;
  double real = 0;  // NaN: equal to any NaN
};

// Where a register, by its name in the PTX, holds a value: at any of these instructions. No place: "lane".
std::vector<Condition::Place> places_of(const Program& program, std::string_view name);

// Those of the lanes for which all conditions hold.
std::uint32_t lanes_where(const std::vector<Condition>& conditions, const Warp& warp, std::uint32_t pc,
                          std::uint32_t lanes);

}  // namespace sglab::emu
