#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "machine/program/decoder.hpp"

namespace sglab::emu {

struct Block {
  std::uint32_t begin, end;
  std::vector<std::uint32_t> successors, predecessors;
};

// Basic blocks of instructions [begin, end), in the order of the code. `edges` is sorted.
std::vector<Block> basic_blocks(std::uint32_t begin, std::uint32_t end, const std::vector<Flow>& flows,
                                const std::vector<std::pair<std::uint32_t, std::uint32_t>>& edges);

}  // namespace sglab::emu
