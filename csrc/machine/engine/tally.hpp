#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sglab::emu {

struct Cluster;
struct LaunchConfig;

// Who uses a barrier, for its name: slots of warps.
struct BarrierUsers {
  static constexpr std::size_t kSlots = 512;  // 16 CTAs of 32 warps
  enum class Purpose : std::uint8_t { kUnknown, kFull, kEmpty };

  std::bitset<kSlots> arrivers;  // or issuers of operations that arrive
  std::bitset<kSlots> waiters;
  std::vector<std::uint32_t> waits;     // pcs at which it is waited for
  Purpose purpose = Purpose::kUnknown;  // of an mbarrier: whether its first wait waits
  bool ended = false;                   // some phase

  void add(const BarrierUsers& other);
};

// By shared::cluster address.
using MbarrierUsers = std::unordered_map<std::uint32_t, BarrierUsers>;

// What one host thread counts of a launch. Warps of the same slot in all clusters are counted together, and
// so are their barriers.
struct Tally {
  // By instruction: +1 where a run of instructions starts, -1 after its end.
  std::vector<std::int64_t> profile;
  // By slot, one bit per instruction: whether such a warp has executed it.
  std::vector<std::uint64_t> visited;
  // The same for what warps of a cluster may still reach; empty where not requested.
  std::vector<std::uint64_t> ahead;
  std::size_t words = 0;  // of both per slot
  // By CTA rank and number, and by address.
  std::map<std::pair<std::uint32_t, std::uint32_t>, BarrierUsers> named;
  std::map<std::uint32_t, BarrierUsers> mbarriers;

  void reset(std::size_t instructions, const LaunchConfig& config);
  std::vector<std::uint64_t> executions() const;  // by instruction
  // Named barriers alone; mbarriers are the asynchronous engine's.
  void add_named_barriers(const Cluster& cluster);
  void look_ahead(const Cluster& cluster);
};

// Sets the bits of the instructions [begin, end).
inline void mark_visited(std::uint64_t* bits, std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end;) {
    const std::size_t stop = at / 64 * 64 + 64;
    const std::uint64_t up_to = end < stop ? (std::uint64_t{1} << (end % 64)) - 1 : ~std::uint64_t{0};
    bits[at / 64] |= up_to & (~std::uint64_t{0} << (at % 64));
    at = stop;
  }
}

}  // namespace sglab::emu
