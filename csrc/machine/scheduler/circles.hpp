#pragma once

#include <cstdint>

#include "machine/engine/launch.hpp"
#include "machine/scheduler/scheduler.hpp"

namespace sglab::emu {

// Finds launches that go round in circles: one that polls for what nobody will write is, turn after turn, in
// a state in which it has been before, memory included, and so never ends.
//
// Brent's way: a moment is kept and compared with those that follow, for twice as long each time.
class Circles {
 public:
  // When no cluster has its turn. Whether the launch is as it was at an earlier moment. `executed`:
  // warp-instructions.
  bool closed(const Launch& launch, const Scheduler::State& state, std::uint64_t executed);
  // The launch has been set back, or somebody has meddled with it.
  void forget() { *this = {}; }

 private:
  // What lets warps continue that would starve happens some times meanwhile, and has then led nowhere.
  static constexpr std::uint64_t kPatience = 4 * kReliefPeriod;
  // To look costs little beside what was executed since the last time.
  static constexpr std::uint64_t kBytesPerInstruction = 16;

  std::uint64_t next_ = kPatience;  // to look again
  std::uint64_t kept_ = 0;          // the digest of a moment,
  std::uint64_t at_ = 0;            // that moment,
  std::uint64_t until_ = 0;         // and until when it is kept
};

}  // namespace sglab::emu
