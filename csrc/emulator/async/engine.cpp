#include "emulator/async/engine.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "emulator/async/warpgroup.hpp"
#include "emulator/async/watcher.hpp"
#include "emulator/engine/cluster.hpp"
#include "emulator/engine/fault.hpp"
#include "emulator/engine/launch.hpp"
#include "emulator/memory/aperture.hpp"
#include "emulator/sanitize/footprint.hpp"
#include "emulator/sanitize/sanitizer.hpp"

namespace sglab::emu {
namespace {

// cp.async instructions of one warp.
constexpr std::size_t kCopiesInFlight = 64;

std::uint32_t rank_of(std::uint32_t address) {
  return address >> kSharedRankShift;
}
std::uint32_t offset_of(std::uint32_t address) {
  return address & kSharedOffsetMask;
}

// What a stepped launch starts with, however often it starts again.
const TensorMemory& unused_tmem(bool follows_writers) {
  static const TensorMemory unused, followed(true);
  return follows_writers ? followed : unused;
}

template <typename Entry>
Entry take_first(std::deque<Entry>& queue) {
  Entry first = std::move(queue.front());
  queue.pop_front();
  return first;
}

// Whether a signal sent to `sent`, multicast to the CTAs of `multicast`, reaches the object at `address`.
bool reaches(std::uint32_t sent, std::uint32_t multicast, std::uint32_t address) {
  if (multicast == 0) return sent == address;
  return offset_of(sent) == offset_of(address) && (multicast >> rank_of(address) & 1u) != 0;
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
  operations_ = overdue_ = 0;
  bulk_.clear();
  tensor_.assign(cluster_.ctas.size(), {});
  pairs_.assign((cluster_.ctas.size() + 1) / 2, {});
  warps_.assign(cluster_.warps.size(), {});
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
  // Both CTAs allocate and release alike, so what one has free the other has free as well.
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

std::uint64_t& AsyncEngine::mbarrier_word(const Issuer& issuer, std::uint32_t address) {
  const std::uint32_t rank = rank_of(address), offset = offset_of(address);
  const Warp& warp = cluster_.warps[issuer.warp];
  if (offset % 8 != 0) {
    raise_fault(warp, issuer.inst, issuer.lane, "misaligned",
                "mbarrier at shared address " + hex(address) + " is not aligned to 8 bytes");
  }
  if (rank >= cluster_.ctas.size() || offset + 8 > cluster_.shared_bytes) {
    raise_fault(warp, issuer.inst, issuer.lane, "out_of_bounds",
                "mbarrier at " + hex(address) + " lies outside shared memory");
  }
  return *reinterpret_cast<std::uint64_t*>(cluster_.ctas[rank].shared + offset);
}

void AsyncEngine::settle(const Issuer& issuer, std::uint32_t address, MbarrierStatus status,
                         const MbarrierUse& use, std::uint32_t lanes) {
  ++cluster_.events;
  if (use.op == MbarrierUse::Op::kArrive || use.op == MbarrierUse::Op::kCompleteTx) {
    BarrierUsers& users = users_[address];
    users.arrivers.set(issuer.warp);
    users.ended = users.ended || status == MbarrierStatus::kPhaseComplete;
  }
  if (Sanitizer* const sanitizer = cluster_.launch->sanitizer)
    sanitizer->mbarrier(cluster_, issuer, lanes, address, status, use);
  if (AsyncWatcher* const watcher = cluster_.launch->watcher; watcher != nullptr && !is_refused(status))
    watcher->changed(cluster_, address, mbarrier_word(issuer, address));
  if (status == MbarrierStatus::kPhaseComplete) {
    if (AsyncWatcher* const watcher = cluster_.launch->watcher) watcher->completed(cluster_, address, issuer);
    for (Warp& warp : cluster_.warps) wake(warp, Wait::kMbarrier, address);
    return;
  }
  if (!is_refused(status)) return;
  const Mbarrier state = Mbarrier::load(mbarrier_word(issuer, address));
  raise_fault(cluster_.warps[issuer.warp], issuer.inst, issuer.lane, "mbarrier",
              std::string(mbarrier_status_name(status)) + ": mbarrier at shared address " + hex(address) +
                  " has pending " + std::to_string(state.pending) + " of " + std::to_string(state.expected) +
                  ", tx-count " + std::to_string(state.tx_count) + ", phase " + std::to_string(state.phase));
}

void AsyncEngine::note_wait(const Warp& warp, const Inst* inst, std::uint32_t address, bool over) {
  BarrierUsers& users = users_[address];
  using Purpose = BarrierUsers::Purpose;
  if (users.purpose == Purpose::kUnknown)
    users.purpose = over && !users.ended ? Purpose::kEmpty : Purpose::kFull;
  users.waiters.set(warp.slot);
  const auto pc = static_cast<std::uint32_t>(inst - warp.code);
  if (std::find(users.waits.begin(), users.waits.end(), pc) == users.waits.end()) users.waits.push_back(pc);
}

void AsyncEngine::note_init(std::uint32_t address) {
  if (AsyncWatcher* const watcher = cluster_.launch->watcher) watcher->initialised(cluster_, address);
  if (cluster_.launch->follows_writers) cluster_.mark_written(address, 8);
  if (std::find(mbarriers_.begin(), mbarriers_.end(), address) == mbarriers_.end())
    mbarriers_.push_back(address);
}

void AsyncEngine::note_inval(std::uint32_t address) {
  std::erase(mbarriers_, address);
}

// Operations are numbered whether anybody watches or not: a replay gives the same numbers.
template <typename Operation>
void AsyncEngine::number(Operation& operation, std::uint32_t lanes) {
  operation.issuer.operation = ++operations_;
  operation.issuer.position = cluster_.launch->position;
  if (Sanitizer* const sanitizer = cluster_.launch->sanitizer)
    sanitizer->issued(cluster_, operation.issuer, lanes, async_op(operation));
  if (AsyncWatcher* const watcher = cluster_.launch->watcher) watcher->issued(cluster_, operation);
}

void AsyncEngine::submit(Issuer& issuer, const Wgmma& operation) {
  issuer.operation = ++operations_;
  issuer.position = cluster_.launch->position;
  if (AsyncWatcher* const watcher = cluster_.launch->watcher) watcher->issued(cluster_, issuer, operation);
}

void AsyncEngine::note_prefetch(const BulkOperation& operation) {
  if (AsyncWatcher* const watcher = cluster_.launch->watcher) watcher->prefetched(cluster_, operation);
}

void AsyncEngine::note_performed(const Issuer& issuer) {
  if (AsyncWatcher* const watcher = cluster_.launch->watcher) watcher->performed(cluster_, issuer);
}

void AsyncEngine::submit(BulkOperation operation) {
  number(operation, 1u << operation.issuer.lane);
  wake_waiters(operation.mbarrier, operation.signalled);
  bulk_.push_back(std::move(operation));
}

void AsyncEngine::wake_waiters(std::uint32_t mbarrier, std::uint32_t multicast) {
  if (multicast == 0) multicast = 1u << rank_of(mbarrier);
  for (; multicast != 0; multicast &= multicast - 1) {
    const auto rank = static_cast<std::uint32_t>(std::countr_zero(multicast));
    const std::uint32_t address = rank << kSharedRankShift | offset_of(mbarrier);
    for (Warp& warp : cluster_.warps) wake(warp, Wait::kMbarrier, address);
  }
}

void AsyncEngine::submit_grouped(Warp& warp, BulkOperation operation) {
  WarpQueue& own = queue(warp);
  const std::uint32_t group = own.bulk_groups[static_cast<std::size_t>(operation.issuer.lane)];
  number(operation, 1u << operation.issuer.lane);
  own.bulk.push_back({std::move(operation), group});
}

void AsyncEngine::submit(TensorOperation operation) {
  number(operation, 1u << operation.issuer.lane);
  tensor_[operation.cta].operations.push_back(std::move(operation));
}

void AsyncEngine::commit(const TensorCommit& commit, std::uint32_t cta) {
  TensorQueue& queue = tensor_[cta];
  TensorCommit marked = commit;
  marked.after = queue.done + queue.operations.size();
  number(marked, 1u << commit.issuer.lane);
  queue.commits.push_back(marked);
  wake_waiters(commit.mbarrier, commit.multicast);
}

SmallCopy& AsyncEngine::new_small(Warp& warp) {
  SmallCopies& small = queue(warp).small;
  // A GPU has room for so many copies in flight and no more; only the adversarial scheduler stretches that.
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

void AsyncEngine::run_tensor_queue(TensorQueue& queue, std::uint64_t until) {
  while (queue.done < until) {
    ++queue.done;
    perform(take_first(queue.operations));
  }
}

// Up to and including the first commit, or all operations when there is none.
bool AsyncEngine::advance_tensor(TensorQueue& queue) {
  if (queue.commits.empty()) {
    if (queue.operations.empty()) return false;
    run_tensor_queue(queue, queue.done + queue.operations.size());
    return true;
  }
  const TensorCommit commit = take_first(queue.commits);
  run_tensor_queue(queue, commit.after);
  const auto arrive = [&](std::uint32_t address) {
    std::uint64_t& word = mbarrier_word(commit.issuer, address);
    const MbarrierUse use{MbarrierUse::Op::kArrive, word, 1};
    settle(commit.issuer, address, mbarrier_arrive(word, {}), use);
  };
  if (commit.multicast == 0) {
    arrive(commit.mbarrier);
    return true;
  }
  for (std::uint32_t rank = 0; rank < cluster_.ctas.size(); ++rank) {
    if (commit.multicast >> rank & 1u) arrive(rank << kSharedRankShift | offset_of(commit.mbarrier));
  }
  return true;
}

bool AsyncEngine::advance_mbarrier(std::uint32_t address) {
  for (std::size_t i = 0; i < bulk_.size(); ++i) {
    if (!reaches(bulk_[i].mbarrier, bulk_[i].signalled, address)) continue;
    const BulkOperation operation = std::move(bulk_[i]);
    bulk_.erase(bulk_.begin() + static_cast<std::ptrdiff_t>(i));
    perform(operation);
    return true;
  }
  for (TensorQueue& queue : tensor_) {
    for (const TensorCommit& commit : queue.commits) {
      if (reaches(commit.mbarrier, commit.multicast, address)) return advance_tensor(queue);
    }
  }
  for (WarpQueue& own : warps_) {
    if (own.small.run_arrival(address, performer())) return true;
  }
  return false;
}

bool AsyncEngine::advance(std::uint64_t choice) {
  for (unsigned kind = 0; kind < 3; ++kind) {
    switch ((kind + choice) % 3) {
      case 0:
        if (!bulk_.empty()) {
          perform(take_first(bulk_));
          return true;
        }
        break;
      case 1:
        for (TensorQueue& queue : tensor_) {
          if (advance_tensor(queue)) return true;
        }
        break;
      default:
        for (WarpQueue& own : warps_) {
          if (!own.small.empty()) {
            own.small.run_oldest(performer());
            return true;
          }
          if (own.bulk.empty()) continue;
          perform(take_first(own.bulk).operation);
          return true;
        }
    }
  }
  return false;
}

void AsyncEngine::complete_overdue() {
  const auto due = [&](const auto& queue) {
    return !queue.empty() && queue.front().issuer.operation <= overdue_;
  };
  while (due(bulk_)) perform(take_first(bulk_));
  for (TensorQueue& queue : tensor_) {
    while (due(queue.operations) || due(queue.commits)) advance_tensor(queue);
  }
  for (WarpQueue& own : warps_) {
    while (due(own.small.records())) own.small.run_oldest(performer());
    while (!own.bulk.empty() && own.bulk.front().operation.issuer.operation <= overdue_)
      perform(take_first(own.bulk).operation);
  }
  overdue_ = operations_;
}

void AsyncEngine::drain() {
  while (advance(0)) {
  }
}

void AsyncEngine::finish() {
  drain();
  for (std::uint32_t rank = 0; rank < tmem_.size(); ++rank) {
    if (tmem_[rank] == nullptr || !tmem_[rank]->anything_allocated()) continue;
    Fault fault;
    fault.kind = "tensor_memory";
    fault.kernel = cluster_.program->name;
    fault.cta = cluster_.ctas[rank].index;
    fault.message = "the CTA exited without releasing its tensor memory (tcgen05.dealloc)";
    throw LaunchFault(std::move(fault));
  }
}

std::size_t AsyncEngine::pending() const {
  std::size_t total = bulk_.size();
  for (const TensorQueue& queue : tensor_) total += queue.operations.size() + queue.commits.size();
  for (const WarpQueue& own : warps_) total += own.bulk.size() + own.small.size();
  return total;
}

}  // namespace sglab::emu
