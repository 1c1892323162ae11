#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "observe/debug/arrival.hpp"
#include "observe/debug/session.hpp"

namespace sglab::emu {

// What a way back leads to.
struct Sought {
  std::uint32_t breakpoint = 0;                   // this one and no other; 0: any
  std::optional<Arrival> arrival = std::nullopt;  // instead of breakpoints
};

// The way back to the last moment that is sought, or to the start: what lies between two checkpoints is
// repeated, the last ones first.
class BackSearch {
 public:
  BackSearch(Session& session, Sought sought);

  // Goes on for `most` instructions, or to where a checkpoint was looked through. kLimit: there is more to
  // look through, and the session is anywhere. kReached: at an arrival.
  Stop look(std::uint64_t most = Session::kNoLimit);

 private:
  enum class Progress : std::uint8_t { kDone, kPaused, kInterrupted };
  // Repeats what lies between the last checkpoint and the end, and notes the last moment that is sought.
  Progress repeat(std::uint64_t most);
  void note_next_tick();
  bool counts(std::uint32_t breakpoint) const;

  Session& session_;
  Sought sought_;
  std::vector<Session::Checkpoint> checkpoints_;  // not looked through yet
  std::uint64_t end_;                             // ticks up to which to look
  bool inclusive_ = false;                        // also what has just happened there
  // The checkpoint under way: where the session was left, and what was found so far.
  std::optional<std::uint64_t> left_;
  Stop found_;
  std::uint64_t found_ticks_ = 0;  // 0: nothing
};

}  // namespace sglab::emu
