#pragma once

#include <cstdint>

#include "observe/record/accesses.hpp"

// What a warp's access asks of the memories: how many pieces of them its lanes touch.
namespace sglab::emu {

// How the lanes' bytes lie: all lanes at one address, each right after the lane before it, or otherwise.
enum class Layout : std::uint8_t { kSame, kRow, kOther };
Layout layout_of(const LaneAccess& access, std::uint32_t bytes);

// Different aligned pieces of `size` bytes, a power of two; `span`: from the lowest byte to past the highest;
// `shift`: how far memory lies from where an alignment as CUDA's would have it.
std::uint8_t pieces(const LaneAccess& access, Layout layout, std::uint64_t span, std::uint32_t bytes,
                    std::uint64_t size, std::uint64_t shift);

// Cycles that the 32 banks of shared memory need: each gives one word per cycle, to all lanes that ask for
// it. 8 bytes per lane are served by half warps, 16 by quarters. Lanes that change the same word with one
// instruction take turns, but for those that add 1 to it: a GPU counts these and adds once.
std::uint8_t wavefronts(const LaneAccess& access, Layout layout, const AccessForm& form);

}  // namespace sglab::emu
