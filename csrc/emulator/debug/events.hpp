#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "emulator/debug/accesses.hpp"
#include "emulator/debug/stepper.hpp"

namespace sglab::emu {

// What happened in a launch, in the order in which it happened. Event n is the n-th executed instruction of
// the PTX text.
struct EventLog {
  // Instructions [begin, end) executed in a row by the same lanes.
  struct Run {
    std::uint32_t cta, warp, begin, end, mask;
  };
  struct Access {
    std::uint64_t event;
    std::uint64_t address;  // the lowest
    std::uint32_t span;     // from there to behind the highest byte
    std::uint32_t bytes;    // of all lanes
    std::uint8_t lanes;
    std::uint8_t space;  // 0 global, 1 shared (the address carries the CTA's rank)
    std::uint8_t kind;   // 1 read, 2 write, 3 both
  };
  struct Barrier {
    std::uint64_t event;
    std::uint64_t phase;   // before the event; of an mbarrier, its parity
    std::uint32_t object;  // number, or shared::cluster address
    std::uint8_t kind;     // 0 named, 1 mbarrier, 2 cluster
  };
  struct Wait {
    std::uint64_t from;   // instructions executed when it began
    std::uint64_t event;  // that it delayed
  };
  std::vector<Run> runs;
  std::vector<Access> accesses;
  std::vector<Barrier> barriers;
  std::vector<Wait> waits;
};

// Runs a launch on one host thread, in the order of an unrecorded one, and keeps its events; `details`:
// accesses, barriers and waits, too.
LaunchReport record_launch(const Program& program, LaunchConfig config, bool details,
                           const std::function<bool()>& interrupted, EventLog& log);

}  // namespace sglab::emu
