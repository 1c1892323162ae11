#include <utility>

#include "machine/async/engine.hpp"
#include "observe/debug/stepper.hpp"
#include "observe/sanitize/sanitizer.hpp"

// What a stepped launch consists of at a position: saved and brought back.
namespace sglab::emu {
namespace {

MemoryImage::Region bytes_of(const AlignedBytes& memory) {
  return {memory.data(), memory.size()};
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
  saved->turn = turn_;
  saved->round = round_;
  saved->last = last_;
  saved->waiting = waiting_;
  saved->next = next_;
  saved->running = running_;
  for (Cluster* const cluster : clusters())
    saved->held.push_back({cluster, *cluster, cluster->idle_events_, cluster->idle_rounds_,
                           cluster->async == nullptr ? nullptr : cluster->async->save()});
  saved->profile = tally_.profile;
  saved->output = launch_->output.size();
  saved->memory = MemoryImage::take(regions(), before == nullptr ? nullptr : &before->memory);
  return saved;
}

void Stepper::restore(const Saved& saved) {
  now_ = saved.now;
  ticks_ = saved.ticks;
  turn_ = saved.turn;
  round_ = saved.round;
  last_ = saved.last;
  waiting_ = saved.waiting;
  waits_ = ~std::uint64_t{0};
  next_ = saved.next;
  running_ = saved.running;
  std::copy(saved.profile.begin(), saved.profile.end(), tally_.profile.begin());
  launch_->output.resize(saved.output);
  idle_.clear();
  for (const std::unique_ptr<Cluster>& cluster : owned_) idle_.push_back(cluster.get());
  for (const Saved::Held& held : saved.held) {
    std::erase(idle_, held.cluster);
    static_cast<ClusterState&>(*held.cluster) = held.state;
    held.cluster->idle_events_ = held.idle_events;
    held.cluster->idle_rounds_ = held.idle_rounds;
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

}  // namespace sglab::emu
