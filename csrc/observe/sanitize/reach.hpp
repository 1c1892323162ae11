#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "machine/ops/operands.hpp"
#include "machine/program/reachable.hpp"

namespace sglab::emu {

// The mbarrier that an instruction waits for, arrives at or signals; nothing if it does none of that.
std::optional<AddressOperand> mbarrier_operand(const Program& program, std::uint32_t pc);

// Of the instructions that are reachable from `pc`, those with one of the Releases in `what`.
std::vector<std::uint32_t> reachable(const Program& program, std::uint32_t pc, std::uint8_t what);

}  // namespace sglab::emu
