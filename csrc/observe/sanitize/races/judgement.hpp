#pragma once

#include <span>
#include <string>

#include "observe/sanitize/races/shadow.hpp"
#include "observe/sanitize/races/strand.hpp"

namespace sglab::emu::races {

// Who made an access; kNoLane: all of its lanes.
Party party_of(const Record& record, std::uint32_t lane);

inline constexpr char kMissingWarpSync[] =
    "bar.warp.sync (__syncwarp) is missing between the lanes; a barrier (__syncthreads, cuda.syncthreads, "
    "bar.sync) orders them, and other warps, too";

// One access by some lanes, or by an asynchronous operation, and what comes before it: determines whether an
// earlier access is ordered before it and reports a race if not.
class Judgement final : public Judge {
 public:
  Judgement(Findings& findings, const Actor& actor, const Record& record, std::span<const View* const> views)
      : record_(record), findings_(findings), actor_(actor), views_(views) {}

  // Of the access to come: where it is and what it does.
  Space space = Space::kGlobal;  // kReg: tensor memory
  std::uint64_t address = 0;
  std::uint32_t lane = kNoLane;
  bool writes = false;
  // A plain store: then the memory from `address` on, after it and after the last store of a thread to it.
  bool stores = false;
  const std::uint8_t *now = nullptr, *then = nullptr;
  std::uint32_t span = 4;  // bytes of a word that are written
  // When the accessing strand's lanes last synchronised with each other.
  std::uint32_t met = 0;
  // What the accessing strand would know after tcgen05.fence::after_thread_sync.
  const Clock* tensor_found = nullptr;
  // Of a wgmma: which warp each view is of, and the warps whose views count.
  std::span<const std::uint8_t> issuers;
  std::uint8_t warps = 0xf;
  // Whether it reads a tensor map, to copy by it; the map's address is then `map`.
  bool reads_map = false;
  std::uint64_t map = 0;
  // Of an asynchronous operation: the threads of its cluster.
  const Threads* threads = nullptr;

  Verdict judge(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane) override;
  bool past(const Record& earlier) override;
  bool alone() const override;

 private:
  bool counts(std::size_t view) const { return issuers.empty() || (issuers[view] & warps) != 0; }
  bool ordered(const View& view, const Record& earlier, std::uint32_t by) const;
  bool same_warp(const Record& earlier) const;
  bool issued_together(const Record& earlier) const;
  bool made_together(const Record& earlier) const;
  bool by_registers(const Record& earlier, const View& view) const;
  bool fenced(const View& view, const Record& earlier, std::uint32_t by) const;
  bool same_value(const Record& earlier, std::uint32_t earlier_lane) const;
  bool unchanged();
  Verdict judge_lanes(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane);
  Verdict judge_map(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane);
  Verdict judge_foreign(const Record& earlier, bool earlier_writes);
  void race(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane, const View& view);
  bool overtaken(const Record& earlier) const;
  bool plain_read_beside_atomic(const Record& earlier, bool earlier_writes) const;
  void report_plain_read(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane);
  bool both_update(const Record& earlier) const;
  void report_updates(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane);
  Finding finding(const char* kind, const char* why) const;
  void report(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane, const char* kind,
              const char* why);
  void report_overtaken(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane);

  const Record& record_;
  Findings& findings_;
  const Actor& actor_;
  std::span<const View* const> views_;
};

}  // namespace sglab::emu::races
