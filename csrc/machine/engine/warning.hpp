#pragma once

#include <cstdint>
#include <string>

#include "isa/inst.hpp"

namespace sglab::emu {

struct Warp;

// What a launch survives but hardly meant: PTX leaves it undefined, or a GPU happens to forgive it. The same
// kind at the same instruction is one warning that was given several times.
struct Warning {
  const char* kind;  // a word that programs can test
  std::string message;
  std::int64_t cta = 0;  // linear index in the grid, the first time
  std::uint32_t warp = 0, lanes = 0, pc = 0;
  std::uint64_t count = 0;
  std::uint64_t cluster = 0, given = 0;  // the first time: where, and after how many others of the launch
};

// Keeps a warning in the launch and notifies its observers.
void warn(const Warp& warp, const Inst* inst, std::uint32_t lanes, const char* kind,
          const std::string& message);

}  // namespace sglab::emu
