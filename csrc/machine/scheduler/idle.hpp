#pragma once

#include "machine/engine/cluster.hpp"

// What lets a cluster's warps continue when none can on its own.
namespace sglab::emu {

// What happens in time on a GPU, regardless of the other warps: a waiting warp is not starved by one that
// polls. Due at ClusterState::relief_at.
void relieve(Cluster& cluster);

// No warp can run: lets lanes pass siblings they would rather have met, then carries out an asynchronous
// operation, then lets timed waits run out. False: nothing of that helps.
bool resolve_idle(Cluster& cluster);

// Time-outs of waits have led nowhere: whether another cluster may change memory that a warp looks at
// whenever its mbarrier.try_wait gives up. The cluster's next turn lets them run out again.
bool left_to_others(Cluster& cluster);

[[noreturn]] void raise_deadlock(const Cluster& cluster);

}  // namespace sglab::emu
