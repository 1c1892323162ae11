#include "machine/scheduler/launch_state.hpp"

#include "machine/async/engine.hpp"

namespace sglab::emu {
namespace {

MemoryImage::Region bytes_of(const AlignedBytes& memory) {
  return {memory.data(), memory.size()};
}

void add_warp(Digest& digest, const Warp& w) {
  digest.add(w.live, w.group, w.group_count, w.carry, w.cluster_ticket);
  for (std::uint32_t i = 0; i < w.group_count; ++i) {
    const Group& g = w.groups[i];
    digest.add(g.pc, g.mask, g.frame, g.wait, g.arrived, g.key, g.ticket);
  }
  for (const Frame& f : w.frames) {
    if (f.mask != 0) digest.add(f.caller, f.call, f.callee, f.depth, f.mask);
  }
  for (const Meeting& m : w.meetings) {
    digest.add(m.all, m.left);
    if (m.taken) digest.add_bytes(m.given.data(), sizeof m.given);
  }
}

void add_cta(Digest& digest, const Cta& cta) {
  digest.add(cta.live_lanes);
  for (const NamedBarrier& b : cta.barriers) {
    digest.add(b.arrived, b.expected, b.phase, b.votes, b.voters, b.result, b.result_voters);
    for (const std::uint32_t lanes : b.lanes) digest.add(lanes);
  }
}

}  // namespace

std::vector<MemoryImage::Region> memory_of(const Launch& launch, const std::vector<Cluster*>& clusters) {
  std::vector<MemoryImage::Region> all;
  for (const Allocation& a : launch.allocations)
    all.emplace_back(reinterpret_cast<std::uint8_t*>(a.begin), static_cast<std::size_t>(a.end - a.begin));
  for (Cluster* const cluster : clusters) {
    for (const AlignedBytes* const memory : {&cluster->register_memory, &cluster->shared_memory,
                                             &cluster->local_memory, &cluster->shared_written})
      all.push_back(bytes_of(*memory));
    all.emplace_back(reinterpret_cast<std::uint8_t*>(cluster->predicate_memory.data()),
                     cluster->predicate_memory.size() * sizeof(std::uint32_t));
  }
  std::erase_if(all, [](const MemoryImage::Region& region) { return region.empty(); });
  return all;
}

void add_to(Digest& digest, const Cluster& cluster) {
  digest.add(cluster.index, cluster.barrier.arrived, cluster.barrier.phase, cluster.random.state);
  for (const std::uint64_t bits : cluster.runnable) digest.add(bits);
  for (const Cta& cta : cluster.ctas) add_cta(digest, cta);
  for (const Warp& w : cluster.warps) add_warp(digest, w);
  if (cluster.async != nullptr) cluster.async->add_to(digest);
}

}  // namespace sglab::emu
