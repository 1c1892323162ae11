#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "machine/program/program.hpp"

namespace sglab::emu {

// `bar` is .aligned without saying so; bar.warp.sync, which has a member mask, is not.
bool is_aligned(const Program& program, std::uint32_t pc);
bool is_barrier(Act act);

// Where lanes of a warp that part at a branch meet again, for the branches that have a barrier of the whole
// warp on one of the ways there. The end of the kernel is no such place: lanes may leave early.
struct Joins {
  std::vector<std::uint32_t> of;      // by branch; kNoIndex: any other instruction
  std::vector<std::uint8_t> is_join;  // by instruction
};

const Joins& joins_of(const Program& program);

}  // namespace sglab::emu
