#pragma once

#include <cstdint>

namespace sglab::emu {

// The 64-bit mbarrier object (.layout::v0), as stored in shared memory.
//
// bits 0-19 pending arrivals, 20-39 expected arrivals, 40-60 tx-count (21-bit two's complement), 61 valid,
// 62 zero, 63 phase parity. NVIDIA's layout is opaque; only mbarrier instructions may touch it.
struct Mbarrier {
  std::uint32_t pending = 0;   // arrivals still missing in the current phase, 0 to 2^20 - 1
  std::uint32_t expected = 0;  // arrivals of each following phase, 1 to 2^20 - 1
  std::int32_t tx_count = 0;   // bytes expected less bytes completed, -(2^20 - 1) to 2^20 - 1
  bool phase = false;          // parity of the current, incomplete phase
  bool valid = false;          // initialised and not invalidated

  static constexpr std::int32_t kMaxCount = (1 << 20) - 1;

  static Mbarrier load(std::uint64_t word);
  std::uint64_t store() const;
};

// What came of an operation. kDone and kPhaseComplete are the good ones; the rest are misuse, and leave the
// object as it was.
enum class MbarrierStatus : std::uint8_t {
  kDone,
  kPhaseComplete,          // the operation completed the current phase
  kUninitialised,          // not a valid mbarrier object
  kInitOfLiveObject,       // mbarrier.init of a valid object without mbarrier.inval
  kCountOutOfRange,        // a count of zero or above 2^20 - 1
  kArrivalUnderflow,       // more arrivals than the phase still expects
  kExpectedUnderflow,      // arrive_drop of more than the expected count
  kTxOverflow,             // tx-count above 2^20 - 1
  kTxUnderflow,            // tx-count below -(2^20 - 1)
  kCompletedByNoComplete,  // arrive.noComplete would complete the phase
};

const char* mbarrier_status_name(MbarrierStatus status);

// What an operation did to an object, for observers.
struct MbarrierUse {
  enum class Op : std::uint8_t { kInit, kInval, kExpect, kCompleteTx, kArrive, kAddPending, kWait };
  Op op;
  std::uint64_t before;     // the object as it was
  std::uint32_t count = 0;  // arrivals, or those that kInit expects
  std::uint32_t tx = 0;     // bytes expected or completed
  bool drop = false;
};

constexpr bool is_misuse(MbarrierStatus status) {
  return status > MbarrierStatus::kPhaseComplete;
}

// Misuse that changes nothing and ends the launch. Memory that held something else may look like a live
// object: initialising it is not refused.
constexpr bool is_refused(MbarrierStatus status) {
  return is_misuse(status) && status != MbarrierStatus::kInitOfLiveObject;
}

// Phase token that mbarrier.arrive returns: the object before the arrival.
using MbarrierState = std::uint64_t;

// Initialising memory that holds a live object still initialises it; the status only reports.
MbarrierStatus mbarrier_init(std::uint64_t& word, std::uint32_t count);
MbarrierStatus mbarrier_inval(std::uint64_t& word);
MbarrierStatus mbarrier_expect_tx(std::uint64_t& word, std::uint32_t bytes);
MbarrierStatus mbarrier_complete_tx(std::uint64_t& word, std::uint32_t bytes);

struct ArriveOptions {
  std::uint32_t count = 1;
  bool expect_tx = false;
  std::uint32_t tx_bytes = 0;
  bool drop = false;
  bool no_complete = false;
};
MbarrierStatus mbarrier_arrive(std::uint64_t& word, const ArriveOptions& options);

// cp.async.mbarrier.arrive without .noinc: the pending count rises by one now, and falls by one on
// completion.
MbarrierStatus mbarrier_add_pending(std::uint64_t& word);

// test_wait / try_wait. The parity form is true when the phase of that parity is complete, that is, when the
// current phase has the other parity.
inline bool mbarrier_parity_done(std::uint64_t word, bool parity) {
  return (word >> 63 != 0) != parity;
}
inline bool mbarrier_state_done(std::uint64_t word, MbarrierState state) {
  return word >> 63 != state >> 63;
}
inline std::uint32_t mbarrier_pending_count(MbarrierState state) {
  return Mbarrier::load(state).pending;
}
inline bool mbarrier_is_valid(std::uint64_t word) {
  return (word >> 61 & 1) != 0 && (word >> 62 & 1) == 0;
}

}  // namespace sglab::emu
