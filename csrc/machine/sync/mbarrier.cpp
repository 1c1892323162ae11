#include "machine/sync/mbarrier.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint64_t kCountMask = (1u << 20) - 1;
constexpr std::uint64_t kTxMask = (1u << 21) - 1;

bool count_in_range(std::uint32_t count) {
  return count >= 1 && count <= Mbarrier::kMaxCount;
}

// Completes the phase if nothing is missing, and writes the object back.
MbarrierStatus settle(std::uint64_t& word, Mbarrier barrier) {
  MbarrierStatus status = MbarrierStatus::kDone;
  if (barrier.pending == 0 && barrier.tx_count == 0) {
    barrier.phase = !barrier.phase;
    barrier.pending = barrier.expected;
    status = MbarrierStatus::kPhaseComplete;
  }
  word = barrier.store();
  return status;
}

}  // namespace

Mbarrier Mbarrier::load(std::uint64_t word) {
  Mbarrier barrier;
  barrier.pending = static_cast<std::uint32_t>(word & kCountMask);
  barrier.expected = static_cast<std::uint32_t>(word >> 20 & kCountMask);
  const std::uint32_t tx = static_cast<std::uint32_t>(word >> 40 & kTxMask);
  barrier.tx_count = static_cast<std::int32_t>(tx << 11) >> 11;
  barrier.phase = word >> 63 != 0;
  barrier.valid = mbarrier_is_valid(word);
  return barrier;
}

std::uint64_t Mbarrier::store() const {
  return static_cast<std::uint64_t>(pending) | static_cast<std::uint64_t>(expected) << 20 |
         (static_cast<std::uint64_t>(static_cast<std::uint32_t>(tx_count)) & kTxMask) << 40 |
         static_cast<std::uint64_t>(valid) << 61 | static_cast<std::uint64_t>(phase) << 63;
}

const char* mbarrier_status_name(MbarrierStatus status) {
  constexpr const char* kNames[] = {"done",
                                    "phase_complete",
                                    "uninitialised",
                                    "init_of_live_object",
                                    "count_out_of_range",
                                    "arrival_underflow",
                                    "expected_underflow",
                                    "tx_overflow",
                                    "tx_underflow",
                                    "completed_by_no_complete"};
  return kNames[static_cast<int>(status)];
}

MbarrierStatus mbarrier_init(std::uint64_t& word, std::uint32_t count) {
  if (!count_in_range(count)) return MbarrierStatus::kCountOutOfRange;
  const bool live = mbarrier_is_valid(word);
  Mbarrier barrier;
  barrier.pending = barrier.expected = count;
  barrier.valid = true;
  word = barrier.store();
  return live ? MbarrierStatus::kInitOfLiveObject : MbarrierStatus::kDone;
}

MbarrierStatus mbarrier_inval(std::uint64_t& word) {
  if (!mbarrier_is_valid(word)) return MbarrierStatus::kUninitialised;
  word = 0;
  return MbarrierStatus::kDone;
}

MbarrierStatus mbarrier_expect_tx(std::uint64_t& word, std::uint32_t bytes) {
  if (!mbarrier_is_valid(word)) return MbarrierStatus::kUninitialised;
  Mbarrier barrier = Mbarrier::load(word);
  if (barrier.tx_count + static_cast<std::int64_t>(bytes) > Mbarrier::kMaxCount)
    return MbarrierStatus::kTxOverflow;
  barrier.tx_count += static_cast<std::int32_t>(bytes);
  word = barrier.store();
  return MbarrierStatus::kDone;
}

MbarrierStatus mbarrier_complete_tx(std::uint64_t& word, std::uint32_t bytes) {
  if (!mbarrier_is_valid(word)) return MbarrierStatus::kUninitialised;
  Mbarrier barrier = Mbarrier::load(word);
  if (barrier.tx_count - static_cast<std::int64_t>(bytes) < -Mbarrier::kMaxCount)
    return MbarrierStatus::kTxUnderflow;
  barrier.tx_count -= static_cast<std::int32_t>(bytes);
  return settle(word, barrier);
}

MbarrierStatus mbarrier_arrive(std::uint64_t& word, const ArriveOptions& options) {
  if (!mbarrier_is_valid(word)) return MbarrierStatus::kUninitialised;
  Mbarrier barrier = Mbarrier::load(word);
  if (!count_in_range(options.count)) return MbarrierStatus::kCountOutOfRange;
  if (options.expect_tx) {
    const std::int64_t tx = barrier.tx_count + static_cast<std::int64_t>(options.tx_bytes);
    if (tx > Mbarrier::kMaxCount) return MbarrierStatus::kTxOverflow;
    barrier.tx_count = static_cast<std::int32_t>(tx);
  }
  if (options.drop) {
    if (barrier.expected < options.count) return MbarrierStatus::kExpectedUnderflow;
    barrier.expected -= options.count;
  }
  if (barrier.pending < options.count) return MbarrierStatus::kArrivalUnderflow;
  barrier.pending -= options.count;
  if (options.no_complete && barrier.pending == 0 && barrier.tx_count == 0) {
    return MbarrierStatus::kCompletedByNoComplete;
  }
  return settle(word, barrier);
}

MbarrierStatus mbarrier_add_pending(std::uint64_t& word) {
  if (!mbarrier_is_valid(word)) return MbarrierStatus::kUninitialised;
  Mbarrier barrier = Mbarrier::load(word);
  if (barrier.pending == static_cast<std::uint32_t>(Mbarrier::kMaxCount))
    return MbarrierStatus::kCountOutOfRange;
  ++barrier.pending;
  word = barrier.store();
  return MbarrierStatus::kDone;
}

}  // namespace sglab::emu
