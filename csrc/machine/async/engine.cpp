#include "machine/async/engine.hpp"

#include <bit>
#include <utility>

#include "machine/async/warpgroup.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"

namespace sglab::emu {
namespace {

// Operations of a queue, at most: a kernel that never waits does not fill the host's memory.
constexpr std::size_t kMostInFlight = 1u << 16;

// cp.async instructions of one warp.
constexpr std::size_t kCopiesInFlight = 64;

// What a stepped launch starts with, however often it starts again.
const TensorMemory& unused_tmem(bool follows_writers) {
  static const TensorMemory unused, followed(true);
  return follows_writers ? followed : unused;
}

}  // namespace

AsyncEngine& async_engine(Warp& warp) {
  Cluster& cluster = *warp.cluster;
  if (cluster.async == nullptr && cluster.spare_async != nullptr) {
    cluster.async = std::move(cluster.spare_async);
    cluster.async->reset();
  }
  if (cluster.async == nullptr) cluster.async = std::make_shared<AsyncEngine>(cluster);
  return *cluster.async;
}

AsyncEngine::AsyncEngine(Cluster& cluster) : cluster_(cluster) {
  reset();
}
AsyncEngine::~AsyncEngine() = default;

void AsyncEngine::reset() {
  tmem_.resize(cluster_.ctas.size());
  spare_tmem_.resize(cluster_.ctas.size());
  for (std::uint32_t rank = 0; rank < tmem_.size(); ++rank) {
    if (cluster_.launch->replayed) set_aside_tmem(rank);
    if (tmem_[rank] != nullptr) tmem_[rank]->reset();
  }
  mbarriers_.clear();
  left_.clear();
  phases_.clear();
  operations_ = overdue_ = 0;
  bulk_.clear();
  tensor_.assign(cluster_.ctas.size(), {});
  pairs_.assign((cluster_.ctas.size() + 1) / 2, {});
  warps_.resize(cluster_.warps.size());
  for (WarpQueue& queue : warps_) queue.clear();
  warpgroups_.clear();
  warpgroups_.resize(cluster_.warps.size());
  tmem_stores_.assign(cluster_.warps.size(), {});
}

void AsyncEngine::set_aside_tmem(std::uint32_t rank) {
  if (tmem_[rank] != nullptr) spare_tmem_[rank] = std::move(tmem_[rank]);
}

TensorMemory& AsyncEngine::tmem(std::uint32_t rank) {
  std::unique_ptr<TensorMemory>& memory = tmem_[rank];
  if (memory == nullptr && spare_tmem_[rank] != nullptr) {
    memory = std::move(spare_tmem_[rank]);
    *memory = unused_tmem(cluster_.launch->follows_writers);
  }
  if (memory == nullptr) memory = std::make_unique<TensorMemory>(cluster_.launch->follows_writers);
  return *memory;
}

TensorMemory::Allocation AsyncEngine::allocate_tmem(std::uint32_t rank, int cta_group,
                                                    std::uint32_t columns) {
  using Status = TensorMemory::AllocStatus;
  if (cta_group == 1) return tmem(rank).allocate(columns);
  PairAllocation& pair = pairs_[rank / 2];
  const std::uint32_t side = rank % 2, even = rank & ~1u;
  if (pair.granted[side]) {
    pair.granted[side] = false;
    return pair.result;
  }
  pair.asked[side] = true;
  if (!pair.asked[0] || !pair.asked[1]) return {Status::kMustWait, 0};
  // Both CTAs allocate and release the same way, so what one has free the other has free as well.
  pair.result = tmem(even).allocate(columns);
  if (pair.result.status == Status::kMustWait) return pair.result;
  const auto other = tmem(even + 1).allocate(columns);
  if (other.status != pair.result.status) pair.result.status = other.status;
  pair.asked = {};
  pair.granted[1 - side] = true;
  ++cluster_.events;
  for (Warp& warp : cluster_.warps) wake(warp, Wait::kResource, even);
  return pair.result;
}

Warpgroup& AsyncEngine::warpgroup(const Warp& warp) {
  auto& group = warpgroups_[warp.slot - warp.index % 4];
  if (group == nullptr) group = std::make_unique<Warpgroup>();
  return *group;
}

std::size_t AsyncEngine::slot_of(const Warp& warp) {
  return warp.slot;
}

AsyncEngine::WarpQueue& AsyncEngine::queue(const Warp& warp) {
  return warps_[warp.slot];
}

std::span<std::uint8_t> AsyncEngine::smem(std::uint32_t rank) const {
  return {cluster_.ctas[rank].shared, cluster_.shared_bytes};
}

// Operations are numbered whether observed or not: a replay gives the same numbers.
template <typename Operation>
void AsyncEngine::number(Operation& operation, std::uint32_t lanes) {
  number(operation.issuer);
  const AsyncOperation event{operation.issuer, lanes, &operation};
  cluster_.launch->observers.notify([&](Observer& o) { o.issued(cluster_, event); });
}

void AsyncEngine::number(Issuer& issuer) {
  issuer.operation = ++operations_;
  issuer.position = cluster_.launch->position;
}

void AsyncEngine::note_prefetch(const BulkOperation& operation) {
  cluster_.launch->observers.notify([&](Observer& o) { o.prefetched(cluster_, operation); });
}

void AsyncEngine::submit(BulkOperation operation) {
  number(operation, 1u << operation.issuer.lane);
  wake_waiters(operation.mbarrier, operation.signalled);
  if (bulk_.size() >= kMostInFlight) perform(take_first(bulk_));
  bulk_.push_back(std::move(operation));
}

void AsyncEngine::submit_grouped(Warp& warp, BulkOperation operation) {
  WarpQueue& own = queue(warp);
  const std::uint32_t group = own.bulk_groups[static_cast<std::size_t>(operation.issuer.lane)];
  number(operation, 1u << operation.issuer.lane);
  if (own.bulk.size() >= kMostInFlight) perform(take_first(own.bulk).operation);
  own.bulk.push_back({std::move(operation), group});
}

void AsyncEngine::submit(TensorOperation operation) {
  number(operation, 1u << operation.issuer.lane);
  TensorQueue& queue = tensor_[operation.cta];
  if (queue.operations.size() >= kMostInFlight) advance_tensor(queue);
  queue.operations.push_back(std::move(operation));
}

void AsyncEngine::commit(const TensorCommit& commit, std::uint32_t cta) {
  TensorQueue& queue = tensor_[cta];
  if (queue.commits.size() >= kMostInFlight) advance_tensor(queue);
  TensorCommit marked = commit;
  marked.after = queue.done + queue.operations.size();
  number(marked, 1u << commit.issuer.lane);
  queue.commits.push_back(marked);
  wake_waiters(commit.mbarrier, commit.multicast);
}

std::vector<std::uint32_t> AsyncEngine::take_values() {
  if (spare_values_.empty()) return {};
  std::vector<std::uint32_t> values = std::move(spare_values_.back());
  spare_values_.pop_back();
  return values;
}

void AsyncEngine::keep_values(std::vector<PendingStore>& stored) {
  constexpr std::size_t kMost = 16;
  for (PendingStore& store : stored) {
    if (spare_values_.size() == kMost) return;
    spare_values_.push_back(std::move(store.values));
  }
}

SmallCopy& AsyncEngine::new_small(Warp& warp) {
  SmallCopies& small = queue(warp).small;
  // A GPU has room for only so many copies in flight; only the adversarial scheduler stretches that.
  if (cluster_.launch->config.policy != Policy::kAdversarial) {
    while (small.size() >= kCopiesInFlight) small.run_oldest(performer());
  }
  return small.append();
}

void AsyncEngine::submit_small(Warp& warp) {
  SmallCopies& small = queue(warp).small;
  const SmallCopy& copy = small.newest();
  number(small.newest(), copy.mask);
  if (copy.bytes == 0) {
    for (std::uint32_t rest = copy.mask, last = kNoMbarrier; rest != 0; rest &= rest - 1) {
      const std::uint32_t mbarrier = copy.shared[static_cast<std::size_t>(std::countr_zero(rest))];
      if (mbarrier != std::exchange(last, mbarrier)) wake_waiters(mbarrier);
    }
  }
  small.enter();
}

}  // namespace sglab::emu
