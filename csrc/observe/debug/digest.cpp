#include "observe/debug/digest.hpp"

#include "machine/async/engine.hpp"
#include "machine/async/warpgroup.hpp"
#include "observe/debug/stepper.hpp"

namespace sglab::emu {
namespace {

void add_warp(Digest& digest, const Warp& w) {
  digest.add(w.live, w.group, w.group_count, w.carry, w.cluster_ticket, w.executed);
  for (std::uint32_t i = 0; i < w.group_count; ++i) {
    const Group& g = w.groups[i];
    digest.add(g.pc, g.mask, g.frame, g.wait, g.arrived, g.key, g.ticket);
  }
  for (const Frame& f : w.frames) {
    if (f.mask != 0) digest.add(f.caller, f.call, f.callee, f.depth, f.mask);
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

std::uint64_t Stepper::digest() const {
  Digest digest;
  digest.add(now_, next_, turn_.done, turn_.limit, launch_->output.size());
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

void AsyncEngine::add_to(Digest& digest) const {
  digest.add(operations_);
  for (const InFlight& one : in_flight())
    digest.add(one.issuer.warp, one.issuer.lane, one.issuer.operation, one.shared, one.bytes, one.mbarrier);
  for (const auto& memory : tmem_) {
    digest.add(memory != nullptr);
    if (memory == nullptr) continue;
    for (std::uint32_t c = 0; c < TensorMemory::kColumns; ++c)
      digest.add(memory->owner(c), memory->written(c)[0], memory->written(c)[1]);
    digest.add_bytes(memory->column(0), std::size_t{4} * TensorMemory::kColumns * TensorMemory::kLanes);
  }
  for (const std::uint32_t address : mbarriers_) digest.add(address);
  for (const auto& group : warpgroups_) {
    if (group != nullptr) group->add_to(digest);
  }
  for (const std::vector<PendingStore>& stores : tmem_stores_) {
    for (const PendingStore& store : stores) digest.add_bytes(store.values.data(), 4 * store.values.size());
  }
}

void Warpgroup::add_to(Digest& digest) const {
  digest.add(done_);
  for (const Operation& operation : operations_) digest.add(operation.issuer.operation, operation.issued);
  for (const auto& chain : chains_) {
    digest.add(chain->holding, chain->last);
    digest.add_bytes(chain->sums.column(0), std::size_t{256} * static_cast<std::size_t>(chain->sums.n()));
  }
  for (const Progress& progress : warps_) {
    digest.add(progress.issued);
    for (const std::uint64_t group : progress.groups) digest.add(group);
  }
}

}  // namespace sglab::emu
