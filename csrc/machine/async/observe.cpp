#include <bit>
#include <utility>

#include "machine/async/engine.hpp"
#include "machine/async/warpgroup.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/digest.hpp"

// What debuggers ask of the asynchronous engine: copies of it, and lists of what is in flight.
namespace sglab::emu {

struct AsyncEngine::Saved {
  std::vector<std::unique_ptr<TensorMemory>> tmem;
  std::vector<std::uint32_t> mbarriers, left;
  std::unordered_map<std::uint32_t, std::uint64_t> phases;
  std::uint64_t operations, overdue;
  std::deque<BulkOperation> bulk;
  std::vector<TensorQueue> tensor;
  std::vector<PairAllocation> pairs;
  std::vector<WarpQueue> warps;
  std::vector<std::unique_ptr<Warpgroup>> warpgroups;
  std::vector<std::vector<PendingStore>> tmem_stores;
};

namespace {

std::vector<std::unique_ptr<TensorMemory>> copies(const std::vector<std::unique_ptr<TensorMemory>>& all) {
  std::vector<std::unique_ptr<TensorMemory>> made;
  for (const auto& one : all) made.push_back(one == nullptr ? nullptr : std::make_unique<TensorMemory>(*one));
  return made;
}

std::vector<std::unique_ptr<Warpgroup>> copies(const std::vector<std::unique_ptr<Warpgroup>>& all) {
  std::vector<std::unique_ptr<Warpgroup>> made;
  for (const auto& one : all) made.push_back(one == nullptr ? nullptr : one->copy());
  return made;
}

const char* kind_name(const BulkOperation& operation) {
  constexpr const char* kNames[] = {"load box",         "store box",        "reduce box",
                                    "global to shared", "shared to global", "shared to shared",
                                    "reduce to global", "reduce to shared", "store words"};
  return kNames[static_cast<unsigned>(operation.kind)];
}

InFlight seen(const BulkOperation& operation) {
  const bool box = operation.kind <= BulkOperation::Kind::kReduceBox;
  return {kind_name(operation), operation.issuer, operation.shared,
          box ? box_bytes(operation.map, operation.box) : operation.bytes, operation.mbarrier};
}

}  // namespace

std::shared_ptr<const AsyncEngine::Saved> AsyncEngine::save() const {
  return std::make_shared<Saved>(Saved{copies(tmem_), mbarriers_, left_, phases_, operations_, overdue_,
                                       bulk_, tensor_, pairs_, warps_, copies(warpgroups_), tmem_stores_});
}

// In place: readers of tensor memory hold its address.
void AsyncEngine::restore_tmem(const std::vector<std::unique_ptr<TensorMemory>>& saved) {
  for (std::uint32_t rank = 0; rank < saved.size(); ++rank) {
    if (saved[rank] != nullptr) {
      tmem(rank) = *saved[rank];
    } else {
      set_aside_tmem(rank);
    }
  }
}

void AsyncEngine::restore(const Saved& saved) {
  restore_tmem(saved.tmem);
  mbarriers_ = saved.mbarriers;
  left_ = saved.left;
  phases_ = saved.phases;
  operations_ = saved.operations;
  overdue_ = saved.overdue;
  bulk_ = saved.bulk;
  tensor_ = saved.tensor;
  pairs_ = saved.pairs;
  warps_ = saved.warps;
  warpgroups_ = copies(saved.warpgroups);
  tmem_stores_ = saved.tmem_stores;
}

std::vector<InFlight> AsyncEngine::in_flight() const {
  std::vector<InFlight> all;
  for (const BulkOperation& operation : bulk_) all.push_back(seen(operation));
  for (const TensorQueue& queue : tensor_) {
    std::size_t commit = 0;
    const auto commits_until = [&](std::uint64_t position) {
      for (; commit < queue.commits.size() && queue.commits[commit].after <= position; ++commit)
        all.push_back({"commit", queue.commits[commit].issuer, 0, 0, queue.commits[commit].mbarrier});
    };
    for (std::size_t i = 0; i < queue.operations.size(); ++i) {
      constexpr const char* kNames[] = {"mma", "copy to tensor memory", "shift"};
      commits_until(queue.done + i);
      const TensorOperation& operation = queue.operations[i];
      all.push_back({kNames[static_cast<unsigned>(operation.kind)], operation.issuer, 0, 0, kNoMbarrier});
    }
    commits_until(queue.done + queue.operations.size());
  }
  for (const WarpQueue& own : warps_) {
    for (const Grouped& grouped : own.bulk) all.push_back(seen(grouped.operation));
    for (const SmallCopy& copy : own.small.records()) {
      if (copy.mask == 0) continue;
      const auto lanes = static_cast<std::uint32_t>(std::popcount(copy.mask));
      const std::uint32_t first = copy.shared[static_cast<std::size_t>(std::countr_zero(copy.mask))];
      const bool arrival = copy.bytes == 0;
      all.push_back({arrival ? "cp.async arrival" : "cp.async", copy.issuer, arrival ? 0 : first,
                     lanes * copy.bytes, arrival ? first : kNoMbarrier});
    }
  }
  return all;
}

// Operations and chains share matrices; so do their copies.
std::unique_ptr<Warpgroup> Warpgroup::copy() const {
  auto made = std::make_unique<Warpgroup>(*this);
  std::vector<std::pair<const Chain*, std::shared_ptr<Chain>>> known;
  const auto own = [&](std::shared_ptr<Chain>& chain) {
    if (chain == nullptr) return;
    for (const auto& [old, fresh] : known) {
      if (old == chain.get()) return void(chain = fresh);
    }
    known.emplace_back(chain.get(), std::make_shared<Chain>(*chain));
    chain = known.back().second;
  };
  for (std::shared_ptr<Chain>& chain : made->chains_) own(chain);
  for (Operation& operation : made->operations_) own(operation.chain);
  return made;
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
  for (const std::uint32_t address : left_) digest.add(address);
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
