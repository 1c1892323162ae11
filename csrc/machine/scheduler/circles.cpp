#include "machine/scheduler/circles.hpp"

#include <algorithm>
#include <vector>

#include "machine/scheduler/launch_state.hpp"

namespace sglab::emu {
namespace {

// Whether what comes next follows from the state of the launch: neither from chance nor from a clock, nor
// from what another host thread does.
bool follows_from_state(const Launch& launch) {
  const Policy policy = launch.config.policy;
  return (policy == Policy::kFair || policy == Policy::kInOrder) && !launch.program->uses_clock &&
         !launch.concurrent;
}

// Which group of a diverged warp runs next depends on how long the others have not.
void add_turns(Digest& digest, const Warp& w) {
  constexpr std::uint32_t kLong = 1u << 16;  // starved by all means
  digest.add(w.hold, w.hurry, w.retry);
  for (std::uint32_t i = 0; i < w.group_count && w.group_count > 1; ++i) {
    if (w.groups[i].wait == Wait::kReady) digest.add(std::min(w.turns - w.groups[i].last_turn, kLong));
  }
}

}  // namespace

bool Circles::closed(const Launch& launch, const Scheduler::State& state, std::uint64_t executed) {
  if (executed < next_ || state.running.empty() || !follows_from_state(launch)) return false;
  const std::vector<Cluster*> running(state.running.begin(), state.running.end());
  Digest digest;
  digest.add(launch.next.load(), launch.output.written(), state.round.turns);
  for (const Cluster* const cluster : running) {
    add_to(digest, *cluster);
    digest.add(cluster->next_warp);
    for (const Warp& w : cluster->warps) add_turns(digest, w);
  }
  std::uint64_t bytes = 0;
  for (const MemoryImage::Region& region : memory_of(launch, running)) {
    digest.add_bytes(region.data(), region.size());
    bytes += region.size();
  }
  next_ = executed + bytes / kBytesPerInstruction;
  if (at_ != 0 && digest.value() == kept_ && executed - at_ >= kPatience) return true;
  if (executed >= until_) {
    kept_ = digest.value();
    at_ = executed;
    until_ = 2 * executed;
  }
  return false;
}

}  // namespace sglab::emu
