#pragma once

#include <string>
#include <vector>

#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"

namespace sglab::emu {

class BarrierSanitizer;

// Why no warp of a cluster can go on: a chain in which each party waits for something that the next one was
// to do, ending where it began or where nobody is left. Who was to arrive at an mbarrier is a guess: whoever
// has done so before (`history`, if there is one) and may come to that instruction again; failing that,
// whoever may come to an instruction that arrives somewhere.
std::vector<WaitLink> find_deadlock(const Cluster& cluster, const BarrierSanitizer* history);

// The same in sentences, one per line.
std::string describe(const std::vector<WaitLink>& chain);

}  // namespace sglab::emu
