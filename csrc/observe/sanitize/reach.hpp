#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "machine/ops/operands.hpp"
#include "machine/program/reachable.hpp"

namespace sglab::emu {

// What an instruction may end for others. Several bits for none.
enum Releases : std::uint8_t {
  kReleasesNothing = 0,
  kArrivesAtMbarrier = 1,
  kArrivesAtBarrier = 2,
  kArrivesAtCluster = 4,
  kReleasesTmem = 8,
  kIssuesWgmma = 16,
};
Releases releases(std::string_view opcode);

// The mbarrier that an instruction waits for, arrives at or signals; nothing if it does none of that.
std::optional<AddressOperand> mbarrier_operand(const Program& program, std::uint32_t pc);

// Of the instructions that are reachable from `pc`, those with one of the bits in `what`.
std::vector<std::uint32_t> reachable(const Program& program, std::uint32_t pc, std::uint8_t what);

}  // namespace sglab::emu
