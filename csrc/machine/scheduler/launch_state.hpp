#pragma once

#include <vector>

#include "machine/engine/cluster.hpp"
#include "machine/engine/digest.hpp"
#include "machine/engine/launch.hpp"
#include "machine/scheduler/pages.hpp"

// What a launch consists of at a moment.
namespace sglab::emu {

// All memory that it may write: the allocations, and what belongs to these clusters.
std::vector<MemoryImage::Region> memory_of(const Launch& launch, const std::vector<Cluster*>& clusters);

// What a kernel could notice of a cluster beside that memory; not how much it has executed.
void add_to(Digest& digest, const Cluster& cluster);

}  // namespace sglab::emu
