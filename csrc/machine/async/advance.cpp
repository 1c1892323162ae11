#include <algorithm>
#include <utility>

#include "isa/aperture.hpp"
#include "machine/async/engine.hpp"
#include "machine/engine/cluster.hpp"

// When operations take effect.
namespace sglab::emu {
namespace {

// Whether a signal sent to `sent`, multicast to the CTAs of `multicast`, reaches the object at `address`.
bool reaches(std::uint32_t sent, std::uint32_t multicast, std::uint32_t address) {
  if (multicast == 0) return sent == address;
  return ((sent ^ address) & kSharedOffsetMask) == 0 &&
         (multicast >> (address >> kSharedRankShift) & 1u) != 0;
}

}  // namespace

void AsyncEngine::run_tensor_queue(TensorQueue& queue, std::uint64_t until) {
  while (queue.done < until) {
    if (const std::size_t count = perform_together(queue, until - queue.done); count != 0) {
      queue.done += count;
      queue.operations.erase(queue.operations.begin(),
                             queue.operations.begin() + static_cast<std::ptrdiff_t>(count));
      continue;
    }
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
    if (commit.multicast >> rank & 1u)
      arrive(rank << kSharedRankShift | (commit.mbarrier & kSharedOffsetMask));
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

bool AsyncEngine::signals(std::uint32_t address) const {
  const auto by_copy = [&](const BulkOperation& each) {
    return reaches(each.mbarrier, each.signalled, address);
  };
  const auto by_commit = [&](const TensorCommit& each) {
    return reaches(each.mbarrier, each.multicast, address);
  };
  return std::ranges::any_of(bulk_, by_copy) || std::ranges::any_of(tensor_, [&](const TensorQueue& each) {
           return std::ranges::any_of(each.commits, by_commit);
         });
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
  warn_of_unfinished();
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
