#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/engine/cluster.hpp"

namespace sglab::emu {

// A virtual register that holds a value where a group is.
struct RegisterView {
  std::string name;
  Type type;
  char letter;                // width; see Table::alu
  const std::uint8_t* bytes;  // 32 lanes, one after the other; predicates: one 32-bit mask
};

// Registers of the function in which the group is whose values are still to be read. The others' places
// may hold something else by now.
std::vector<RegisterView> live_registers(const Warp& warp, const Group& group);

// The first instruction at or after pc that is in the PTX text.
std::uint32_t shown_pc(const Program& program, std::uint32_t pc);

// An instruction's source line, then the lines its function was inlined at, innermost first.
std::vector<const Location*> source_chain(const Program& program, std::uint32_t pc);

// The name of the inlined function that a location is in, without scopes and arguments; empty for the
// function itself.
std::string function_at(const Module& module, const Location& location);

}  // namespace sglab::emu
