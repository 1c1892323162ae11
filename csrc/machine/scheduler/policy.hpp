#pragma once

#include <cstdint>

#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"

// Who runs next in a cluster, and for how long; see Policy.
namespace sglab::emu {

// Slot of the next warp to run, or -1.
std::int64_t pick(Cluster& cluster);

// Instructions of its turn. Where policies are exact, that is how many are attempted; else the quantum is
// only checked where control turns.
std::uint64_t quantum(Cluster& cluster);
inline bool is_exact(Policy policy) {
  return policy == Policy::kRandom || policy == Policy::kAdversarial;
}

// After the turn of this warp.
void turn_over(Cluster& cluster, const Warp& chosen);

// Under exact policies an asynchronous operation, now and then, before a turn.
void complete_early(Cluster& cluster);

}  // namespace sglab::emu
