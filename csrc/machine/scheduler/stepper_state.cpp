#include <utility>

#include "machine/async/engine.hpp"
#include "machine/engine/digest.hpp"
#include "machine/scheduler/launch_state.hpp"
#include "machine/scheduler/stepper.hpp"

// What a stepped launch consists of at a position: saved and brought back.
namespace sglab::emu {
std::vector<MemoryImage::Region> Stepper::regions() const {
  return memory_of(*launch_, clusters());
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
  circles_.forget();
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
    add_to(digest, *cluster);
    digest.add(cluster->executed);
    for (const Warp& w : cluster->warps) digest.add(w.executed);
  }
  for (const MemoryImage::Region& region : regions()) digest.add_bytes(region.data(), region.size());
  return digest.value();
}

}  // namespace sglab::emu
