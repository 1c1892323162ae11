#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "machine/engine/cluster.hpp"

namespace sglab::emu {

// Where a launch that does not end spends its time: the loop that ran most often, and what it polls, for the
// end of a sentence. Empty if there is no loop. `executions`: by instruction.
std::string describe_hot_loop(const Program& program, const std::vector<std::uint64_t>& executions,
                              const std::vector<const Cluster*>& clusters);

}  // namespace sglab::emu
