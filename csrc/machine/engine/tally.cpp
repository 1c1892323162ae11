#include "machine/engine/tally.hpp"

#include <algorithm>
#include <bit>

#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/program/reachable.hpp"

namespace sglab::emu {

void BarrierUsers::add(const BarrierUsers& other) {
  arrivers |= other.arrivers;
  waiters |= other.waiters;
  for (const std::uint32_t pc : other.waits) {
    if (std::find(waits.begin(), waits.end(), pc) == waits.end()) waits.push_back(pc);
  }
  if (purpose == Purpose::kUnknown) purpose = other.purpose;
  ended = ended || other.ended;
}

void Tally::reset(std::size_t instructions, const LaunchConfig& config) {
  const std::size_t ctas = std::size_t{config.cluster[0]} * config.cluster[1] * config.cluster[2];
  const std::size_t threads = std::size_t{config.block[0]} * config.block[1] * config.block[2];
  words = instructions / 64 + 1;
  profile.assign(instructions + 1, 0);
  visited.assign(ctas * ((threads + 31) / 32) * words, 0);
}

std::vector<std::uint64_t> Tally::executions() const {
  std::vector<std::uint64_t> times(profile.size() - 1);
  std::int64_t running = 0;
  for (std::size_t pc = 0; pc < times.size(); ++pc)
    times[pc] = static_cast<std::uint64_t>(running += profile[pc]);
  return times;
}

void Tally::look_ahead(const Cluster& cluster) {
  ahead.assign(visited.size(), 0);
  for (const Warp& w : cluster.warps) {
    for (std::uint32_t i = 0; i < w.group_count; ++i) {
      const std::vector<bool> seen = reachable(*cluster.program, w.groups[i].pc);
      std::uint64_t* const bits = ahead.data() + w.slot * words;
      for (std::size_t pc = 0; pc < seen.size(); ++pc) bits[pc / 64] |= std::uint64_t{seen[pc]} << (pc % 64);
    }
  }
}

void Tally::add_named_barriers(const Cluster& cluster) {
  for (const Cta& cta : cluster.ctas) {
    for (std::uint32_t number = 0; number < cta.barriers.size(); ++number) {
      for (std::uint32_t rest = cta.barriers[number].users; rest != 0; rest &= rest - 1) {
        BarrierUsers& users = named[{cta.rank, number}];
        users.arrivers.set(cta.first_warp + static_cast<std::uint32_t>(std::countr_zero(rest)));
      }
    }
  }
}

}  // namespace sglab::emu
