#pragma once

#include <cstdint>
#include <vector>

#include "isa/types.hpp"
#include "machine/engine/warp.hpp"
#include "machine/program/program.hpp"

namespace sglab::emu {

// How an instruction touches global or shared memory by addresses in its own operand. Space::kReg: it does
// not.
struct AccessForm {
  Space space = Space::kReg;  // kGeneric: the address says
  std::uint8_t bytes = 0;     // per lane
  bool reads = false, writes = false;
  bool counts = false;  // adds 1

  // Whether lanes that change the same word of shared memory take turns: a GPU counts those that add 1 and
  // adds once.
  bool takes_turns() const { return reads && writes && !counts; }
};

// By instruction. Loads, stores, atomics and reductions; what asynchronous operations do is not in their
// instruction's operands.
std::vector<AccessForm> access_forms(const Program& program);
AccessForm access_form(const Effects& effects);

// The same with what else writes shared memory by addresses in its own operand: stmatrix, tcgen05.alloc.
std::vector<AccessForm> store_forms(const Program& program);

// Lanes that an instruction will run for: the group's, less those that its guard excludes.
std::uint32_t active_lanes(const Warp& warp, const Inst* inst);

// The addresses of lanes about to access a space. Shared addresses carry the CTA's rank.
struct LaneAccess {
  std::uint32_t lanes = 0;
  std::uint64_t address[32];
};
LaneAccess lane_access(const Warp& warp, const Inst* inst, const AccessForm& form, Space space);

// The same for shared memory, and for matrix moves, where lanes address rows of 16 bytes; `form` becomes what
// it is.
LaneAccess shared_access(const Warp& warp, const Inst* inst, AccessForm& form);

// The same for global memory.
LaneAccess global_access(const Warp& warp, const Inst* inst, AccessForm& form);

}  // namespace sglab::emu
