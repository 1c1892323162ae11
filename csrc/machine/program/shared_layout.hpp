#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "machine/program/program.hpp"

namespace sglab::emu {

// A variable in a CTA's shared memory: its offset in the window. The dynamic array has no size of its own.
struct SharedVariable {
  std::string_view name;
  std::uint32_t offset;
  std::uint32_t bytes;
};

// Those that the kernel or what it calls names, in order of declaration.
std::vector<SharedVariable> shared_variables(const Program& program);

}  // namespace sglab::emu
