#include <bit>

#include "machine/async/engine.hpp"
#include "machine/engine/cluster.hpp"

// Bulk groups and cp.async groups of a warp's lanes.
namespace sglab::emu {

void AsyncEngine::commit_bulk_group(Warp& warp) {
  for (std::uint32_t rest = warp.mask; rest != 0; rest &= rest - 1)
    ++queue(warp).bulk_groups[std::countr_zero(rest)];
}

void AsyncEngine::wait_bulk_group(Warp& warp, std::uint32_t pending) {
  WarpQueue& own = queue(warp);
  for (std::size_t i = 0; i < own.bulk.size();) {
    const Grouped& entry = own.bulk[i];
    const auto lane = static_cast<std::uint32_t>(entry.operation.issuer.lane);
    const std::uint32_t committed = own.bulk_groups[lane];
    if ((warp.mask >> lane & 1u) == 0 || std::uint64_t{entry.group} + pending >= committed) {
      ++i;
      continue;
    }
    const BulkOperation operation = entry.operation;
    own.bulk.erase(own.bulk.begin() + static_cast<std::ptrdiff_t>(i));
    perform(operation);
  }
}

void AsyncEngine::commit_small_group(Warp& warp) {
  queue(warp).small.commit_group(warp.mask);
}

void AsyncEngine::wait_small_group(Warp& warp, std::uint32_t pending) {
  queue(warp).small.wait_group(warp.mask, pending, performer());
}

void AsyncEngine::wait_all_small(Warp& warp) {
  queue(warp).small.wait_all(warp.mask, performer());
}

}  // namespace sglab::emu
