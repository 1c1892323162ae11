#pragma once

#include <cstdint>

#include "observe/record/accesses.hpp"

// What a warp's access asks of the memories: how many pieces of them its lanes touch.
namespace sglab::emu {

// Different aligned pieces of `size` bytes, a power of two; `shift`: how far memory lies from where an
// alignment as CUDA's would have it.
std::uint8_t pieces(const LaneAccess& access, std::uint32_t bytes, std::uint64_t size, std::uint64_t shift);

// Cycles that the 32 banks of shared memory need: each gives one word per cycle, to all lanes that ask for
// it. 8 bytes per lane are served by half warps, 16 by quarters. Lanes that change the same word with one
// instruction take turns, but for those that add 1 to it: a GPU counts these and adds once.
std::uint8_t wavefronts(const LaneAccess& access, const AccessForm& form);

}  // namespace sglab::emu
