#pragma once

#include <cstdint>
#include <vector>

#include "machine/program/program.hpp"

namespace sglab::emu {

// Instructions that may be executed from `pc` on, that of `pc` itself included, along branches and into
// calls: by pc.
std::vector<bool> reachable(const Program& program, std::uint32_t pc);

}  // namespace sglab::emu
