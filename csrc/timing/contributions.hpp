#pragma once

#include <cstdint>
#include <vector>

#include "timing/trace.hpp"

namespace sglab::emu::timing {

constexpr std::int64_t kNoPhase = -1;

// The phase that a row of barriers waited for; none for arrivals, tests that failed and first waits.
inline std::int64_t passed_phase(const Trace& trace, std::size_t row) {
  const std::int64_t phase = trace.barriers.passed[row];
  const bool known = phase >= 0 && static_cast<std::size_t>(phase) < trace.phases.position.size();
  return known ? phase : kNoPhase;
}

// Which events end which phases of barriers.
//
// An arrival belongs to the first phase of its barrier that ends at the arrival's position or after it; a
// copy, to the first that ends when it is carried out or after that. What waits at a barrier in the same
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
