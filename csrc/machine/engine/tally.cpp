#include "machine/engine/tally.hpp"

#include <algorithm>
#include <bit>

#include "machine/async/engine.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "observe/sanitize/reach.hpp"

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

void Tally::add_barriers(const Cluster& cluster) {
  for (const Cta& cta : cluster.ctas) {
    for (std::uint32_t number = 0; number < cta.barriers.size(); ++number) {
      for (std::uint32_t rest = cta.barriers[number].users; rest != 0; rest &= rest - 1) {
        BarrierUsers& users = named[{cta.rank, number}];
        users.arrivers.set(cta.first_warp + static_cast<std::uint32_t>(std::countr_zero(rest)));
      }
    }
  }
  for (const auto& engine : {cluster.async, cluster.spare_async}) {
    if (engine == nullptr) continue;
    for (const auto& [address, users] : engine->mbarrier_users()) mbarriers[address].add(users);
  }
}

}  // namespace sglab::emu
