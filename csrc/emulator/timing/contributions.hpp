#pragma once

#include <cstdint>
#include <vector>

#include "emulator/timing/trace.hpp"

namespace sglab::emu::timing {

constexpr std::int64_t kNoPhase = -1;

// Which events end which phases of barriers.
//
// An arrival belongs to the first phase of its barrier that ends at the arrival's position or behind it; a
// copy, to the first that ends when it is carried out or behind that. What waits at a barrier in the same
// instruction belongs to the phase that it passed.
struct Contributions {
  explicit Contributions(const Trace& trace);

  std::vector<std::int64_t> of_barrier;                // by row of barriers
  std::vector<std::uint32_t> copy_begin, copy_phases;  // by row of copies: a range of phases
  struct Asynchronous {
    std::uint64_t event;
    std::uint32_t phase;
  };
  std::vector<Asynchronous> commits;   // by event: phases that tcgen05.commit ends
  std::vector<std::uint32_t> missing;  // by phase: how many contributions it needs
};

}  // namespace sglab::emu::timing
