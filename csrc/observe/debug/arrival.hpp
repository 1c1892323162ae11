#pragma once

#include <cstdint>
#include <vector>

#include "machine/scheduler/stepper.hpp"

namespace sglab::emu {

// Moments at which a warp has executed an instruction and is at another source line than before.
struct Arrival {
  std::int64_t cta = 0;              // linear index in the grid
  std::uint32_t warp = 0;            // in the CTA
  std::vector<std::uint32_t> lines;  // by instruction, 0: of no line; empty: every instruction counts

  bool is_of(const Warp& attempting) const;
  // Where the warp is; 0 if it has exited.
  std::uint32_t line(const Warp& standing) const;
};

}  // namespace sglab::emu
