#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "machine/ops/operands.hpp"
#include "machine/program/program.hpp"

namespace sglab::emu {

// The mbarrier that an instruction waits for, arrives at or signals; nothing if it does none of that.
std::optional<AddressOperand> mbarrier_operand(const Program& program, std::uint32_t pc);

// Instructions with one of the Releases in `what` that may be executed from `pc` on, that of `pc` itself
// included, along branches and into calls.
std::vector<std::uint32_t> reachable(const Program& program, std::uint32_t pc, std::uint8_t what);

// The same for any instruction: by pc.
std::vector<bool> reachable(const Program& program, std::uint32_t pc);

}  // namespace sglab::emu
