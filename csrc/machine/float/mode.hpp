#pragma once

#include <cstdint>

namespace sglab::emu {

// How an instruction rounds, and whether it flushes subnormal inputs and results: Inst::mode. Arithmetic
// computes both itself; the host's own modes are never used.
enum FpMode : std::uint8_t {
  kNearest = 0,
  kDown = 1,
  kUp = 2,
  kTowardZero = 3,
  kRoundMask = 3,
  kFtz = 4,
};

}  // namespace sglab::emu
