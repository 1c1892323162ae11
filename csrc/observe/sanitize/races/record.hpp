#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "observe/sanitize/detector.hpp"

namespace sglab::emu::races {

// Who accesses memory: threads themselves, or what they have issued, by how its completion is observed.
enum class Role : std::uint8_t {
  kThread,
  kCopy,         // signals an mbarrier: bulk copies, st.async
  kGroupedRead,  // a bulk group's reads of its sources (cp.async.bulk.wait_group.read)
  kGroupedWrite,
  kCpAsync,
  kWgmma,
  kTensor,  // tcgen05.mma, .cp, .shift
  kTensorLoad,
  kTensorStore,
};

// An access as others will have to be ordered with it. Accesses by the same instruction between two points of
// synchronisation are one record.
struct Record {
  std::uint64_t position = 0;
  std::uint64_t cluster = 0;
  std::uint32_t slot = 0, clock = 0;              // in the clocks of its cluster
  std::uint32_t issue_slot = 0, issue_clock = 0;  // of the thread that issued it
  std::uint32_t pc = 0, lanes = 0;
  std::uint32_t cta = 0;   // linear index in the grid
  std::uint16_t warp = 0;  // in the CTA
  Role role = Role::kThread;
  bool async_proxy = false;
  bool together = false;    // one lane made it for all of these
  bool strong = false;      // atomics, and loads and stores with an order
  std::uint8_t spread = 0;  // lanes whose bytes, side by side, are sixteen; 0: one lane has as many or more
  Scope scope = Scope::kCta;
};

// Records of one memory, by number. Number 0 means no access.
class Records {
 public:
  Records() { clear(); }
  void clear() {
    all_.assign(1, {});
    recent_.fill({});
  }
  const Record& operator[](std::uint32_t number) const { return all_[number]; }
  // A number for this record: that of an earlier one if the two are the same but for their position.
  std::uint32_t enter(const Record& record);

  static constexpr std::uint32_t kMost = (1u << 26) - 1;

 private:
  std::vector<Record> all_;
  // The clock is mostly what differs, and is asked for where the record has not to be fetched for it.
  struct Recent {
    std::uint32_t number = 0, clock = 0;
  };
  std::array<Recent, 256> recent_;
};

}  // namespace sglab::emu::races
