#include <utility>

#include "machine/engine/digest.hpp"
#include "machine/scheduler/stepper.hpp"

// What a stepped launch consists of at a position: saved and brought back.
namespace sglab::emu {
namespace {

MemoryImage::Region bytes_of(const AlignedBytes& memory) {
  return {memory.data(), memory.size()};
}

void add_warp(Digest& digest, const Warp& w) {
  digest.add(w.live, w.group, w.group_count, w.carry, w.cluster_ticket, w.executed);
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

std::vector<MemoryImage::Region> Stepper::regions() const {
  std::vector<MemoryImage::Region> all;
  for (const Allocation& a : launch_->allocations)
    all.emplace_back(reinterpret_cast<std::uint8_t*>(a.begin), static_cast<std::size_t>(a.end - a.begin));
  for (Cluster* const cluster : clusters()) {
    for (const AlignedBytes* const memory : {&cluster->register_memory, &cluster->shared_memory,
                                             &cluster->local_memory, &cluster->shared_written})
      all.push_back(bytes_of(*memory));
    all.emplace_back(reinterpret_cast<std::uint8_t*>(cluster->predicate_memory.data()),
                     cluster->predicate_memory.size() * sizeof(std::uint32_t));
  }
  std::erase_if(all, [](const MemoryImage::Region& region) { return region.empty(); });
  return all;
}

std::size_t Stepper::memory_bytes() const {
  std::size_t bytes = 0;
  for (const MemoryImage::Region& region : regions()) bytes += region.size();
  return bytes;
}

std::shared_ptr<const Stepper::Saved> Stepper::save(const Saved* before) const {
  auto saved = std::make_shared<Saved>();
  saved->now = now_;
  saved->ticks = ticks_;
  saved->scheduler = scheduler_.state();
  saved->last = last_;
  saved->ran = ran_;
  saved->waiting = waiting_;
  saved->next = launch_->next;
  for (Cluster* const cluster : clusters())
    saved->held.push_back({cluster, *cluster, cluster->async == nullptr ? nullptr : cluster->async->save()});
  saved->profile = tally_.profile;
  saved->output = launch_->output;
  saved->memory = MemoryImage::take(regions(), before == nullptr ? nullptr : &before->memory);
  return saved;
}

void Stepper::restore(const Saved& saved) {
  now_ = saved.now;
  ticks_ = saved.ticks;
  scheduler_.restore(saved.scheduler);
  last_ = saved.last;
  ran_ = saved.ran;
  waiting_ = saved.waiting;
  waits_ = ~std::uint64_t{0};
  launch_->next = saved.next;
  std::copy(saved.profile.begin(), saved.profile.end(), tally_.profile.begin());
  launch_->output = saved.output;
  for (const Saved::Held& held : saved.held) {
    static_cast<ClusterState&>(*held.cluster) = held.state;
    std::shared_ptr<AsyncEngine>& async = held.cluster->async;
    if (held.async == nullptr) {
      if (async != nullptr) held.cluster->spare_async = std::move(async);
      continue;
    }
    if (async == nullptr) async = std::move(held.cluster->spare_async);
    if (async == nullptr) async = std::make_shared<AsyncEngine>(*held.cluster);
    async->restore(*held.async);
  }
  saved.memory.restore();
}

std::uint64_t Stepper::digest() const {
  Digest digest;
  const Scheduler::Turn& turn = scheduler_.state().turn;
  digest.add(now_, launch_->next.load(), turn.done, turn.limit, launch_->output.written());
  for (const Cluster* const cluster : clusters()) {
    digest.add(cluster->index, cluster->executed, cluster->barrier.arrived, cluster->barrier.phase,
               cluster->random.state);
    for (const std::uint64_t bits : cluster->runnable) digest.add(bits);
    for (const Cta& cta : cluster->ctas) add_cta(digest, cta);
    for (const Warp& w : cluster->warps) add_warp(digest, w);
    if (cluster->async != nullptr) cluster->async->add_to(digest);
  }
  for (const MemoryImage::Region& region : regions()) digest.add_bytes(region.data(), region.size());
  return digest.value();
}

}  // namespace sglab::emu
