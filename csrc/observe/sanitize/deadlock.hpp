#pragma once

#include <string>
#include <vector>

#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"

namespace sglab::emu {

class BarrierSanitizer;

// Why no warp of a cluster can continue: a chain in which each party waits for something that the next one
// was to do, ending where it began or where no party is left. Who was to arrive at an mbarrier is a guess:
// whichever has done so before (`history`, if there is one) and may come to that instruction again; failing
// that, whichever may reach an instruction that arrives somewhere.
std::vector<WaitLink> find_deadlock(const Cluster& cluster, const BarrierSanitizer* history);

// The same in sentences, one per line.
std::string describe(const std::vector<WaitLink>& chain);

}  // namespace sglab::emu
