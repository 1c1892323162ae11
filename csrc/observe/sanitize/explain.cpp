#include "observe/sanitize/explain.hpp"

#include "observe/sanitize/deadlock.hpp"
#include "observe/sanitize/hot_loop.hpp"

namespace sglab::emu {

void Explanations::deadlock(const Cluster& cluster, Fault& fault) const {
  fault.cycle = find_deadlock(cluster, history());
  if (!fault.cycle.empty()) fault.message += "\nwho waits for whom:" + describe(fault.cycle);
}

void Explanations::livelock(const Program& program, const std::vector<std::uint64_t>& executions,
                            const std::vector<const Cluster*>& running, Fault& fault) const {
  fault.message += describe_hot_loop(program, executions, running);
}

}  // namespace sglab::emu
