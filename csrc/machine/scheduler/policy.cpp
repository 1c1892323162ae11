#include "machine/scheduler/policy.hpp"

#include <bit>

#include "machine/async/engine.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint64_t kFairQuantum = 256;
// So that a spinning warp cannot starve the others forever.
constexpr std::uint64_t kInOrderQuantum = 1u << 16;
constexpr std::uint64_t kRandomQuantum = 64;
constexpr std::uint64_t kVictimInstructions = 20000;
constexpr std::uint64_t kEarlyCompletion = 16;  // turns per asynchronous operation completed early

}  // namespace

std::int64_t pick(Cluster& cluster) {
  const auto total = static_cast<std::uint32_t>(cluster.warps.size());
  const auto from = [&](std::uint32_t first) -> std::int64_t {
    for (std::uint32_t step = 0; step < cluster.runnable.size() + 1; ++step) {
      const std::uint32_t word = (first / 64 + step) % cluster.runnable.size();
      std::uint64_t bits = cluster.runnable[word];
      if (step == 0) bits &= ~std::uint64_t{0} << (first % 64);
      if (bits != 0) return word * 64 + std::countr_zero(bits);
    }
    return -1;
  };
  switch (cluster.launch->config.policy) {
    case Policy::kInOrder:
      return from(cluster.next_warp);
    case Policy::kRandom:
      return from(static_cast<std::uint32_t>(cluster.random() % total));
    case Policy::kAdversarial: {
      if (cluster.executed >= cluster.victim_until) {
        cluster.victim = static_cast<std::uint32_t>(cluster.random() % total);
        cluster.victim_until = cluster.executed + cluster.random() % kVictimInstructions;
      }
      const auto first = static_cast<std::uint32_t>(cluster.random() % total);
      const std::int64_t found = from(first);
      if (found != cluster.victim) return found;
      const std::int64_t other = from((cluster.victim + 1) % total);
      return other;  // the victim itself if no other can run
    }
    case Policy::kFair:
      break;
  }
  const std::int64_t found = from(cluster.next_warp);
  if (found >= 0) cluster.next_warp = static_cast<std::uint32_t>(found + 1) % total;
  return found;
}

std::uint64_t quantum(Cluster& cluster) {
  switch (cluster.launch->config.policy) {
    case Policy::kInOrder:
      return kInOrderQuantum;
    case Policy::kFair:
      return kFairQuantum;
    default:
      return 1 + cluster.random() % kRandomQuantum;
  }
}

void turn_over(Cluster& cluster, const Warp& chosen) {
  if (cluster.launch->config.policy != Policy::kInOrder) return;
  cluster.next_warp =
      is_runnable(chosen) ? static_cast<std::uint32_t>((chosen.slot + 1) % cluster.warps.size()) : 0;
}

void complete_early(Cluster& cluster) {
  if (cluster.async != nullptr && cluster.random() % kEarlyCompletion == 0)
    cluster.async->advance(cluster.random());
}

}  // namespace sglab::emu
