#include "observe/sanitize/races/judgement.hpp"

#include <algorithm>
#include <cstring>

#include "machine/engine/cluster.hpp"
#include "observe/sanitize/races/stored.hpp"

// References are to the PTX ISA 9.x: "Memory consistency model" (causality order, proxy-preserved base
// causality order), "Asynchronous operations", and of tcgen05 "Memory consistency model for 5th generation of
// TensorCore operations".
namespace sglab::emu::races {
namespace {

bool includes(Scope scope, const Record& a, const Record& b) {
  switch (scope) {
    case Scope::kCta:
      return a.cta == b.cta;
    case Scope::kCluster:
      return a.cluster == b.cluster;
    default:
      return true;
  }
}

// Morally strong: each names a scope that includes the other, so the two do not race.
bool morally_strong(const Record& a, const Record& b) {
  return a.strong && b.strong && includes(a.scope, a, b) && includes(b.scope, b, a);
}

std::uint32_t lanes_of(const Record& record, std::uint32_t lane) {
  return lane == kNoLane || record.role != Role::kThread ? record.lanes : 1u << lane;
}

}  // namespace

// `by`: the lanes that may have made the earlier access.
bool Judgement::ordered(const View& view, const Record& earlier, std::uint32_t by) const {
  if (view.covers(earlier.slot, earlier.clock, by)) return true;
  if (space != Space::kReg) return false;
  if (view.tensor.covers(earlier.slot, earlier.clock)) return true;
  // tcgen05.dealloc is synchronous: "inherently ordered" after what its own thread has issued.
  if (earlier.role == Role::kTensorLoad && record_.role == Role::kThread && same_warp(earlier)) return true;
  if (earlier.role != Role::kTensor || record_.role != Role::kTensor) return false;
  // "Pipelined tcgen05 instructions": one thread's mma, cp and shift run in the order of their issue; so do
  // those of two threads with fence::before_thread_sync and ::after_thread_sync around their synchronisation.
  // The ISA lists pairs; mma then cp is not among them, but kernels for block-scaled formats (CUTLASS) rely
  // on it.
  return earlier.slot == record_.slot || view.tensor.covers(earlier.slot + 1, earlier.clock);
}

bool Judgement::same_warp(const Record& earlier) const {
  return earlier.cta == record_.cta && earlier.warp == record_.warp;
}

// Whether the two are copies that lanes of one warp issued by one execution of an instruction: all lanes that
// issue the same copy write the same.
bool Judgement::issued_together(const Record& earlier) const {
  return writes && earlier.role == record_.role && same_warp(earlier) && earlier.pc == record_.pc &&
         earlier.position == record_.position &&
         (record_.role == Role::kCopy || record_.role == Role::kGroupedWrite);
}

// Whether one of the two is what a lane made for all lanes of their warp, as tcgen05.alloc does: it counts as
// made by each, also where the lanes have known different things since before.
bool Judgement::made_together(const Record& earlier) const {
  return (earlier.together || record_.together) && same_warp(earlier) && earlier.role == Role::kThread &&
         record_.role == Role::kThread;
}

// Whether only the use of its registers says that a tcgen05.ld has read its cells. "Register dependencies,
// same thread": that is respected, but "does not imply any other form of ordering". CUTLASS's MLA kernel
// rescales O in place and CuTe DSL's kernels release tensor memory on the strength of it. The machine does
// not see which registers a store's values were made from.
bool Judgement::by_registers(const Record& earlier, const View& view) const {
  if (earlier.role != Role::kTensorLoad || space != Space::kReg) return false;
  if (record_.role == Role::kTensorStore) return same_warp(earlier);
  return record_.role == Role::kThread && view.seen.covers(earlier.issue_slot, earlier.issue_clock);
}

// A write through the generic proxy is seen through the async proxy after a fence.proxy.async anywhere on
// the way. The other direction needs none: an asynchronous operation's completion has such a fence. Nor do
// reads that a copy overwrites: pipelines of TMA copies rest on that. Nor does cp.async, whose proxy the ISA
// leaves open: CUTLASS's collective mainloops feed wgmma and tcgen05.mma with it without a fence.
bool Judgement::fenced(const View& view, const Record& earlier, std::uint32_t by) const {
  if (!record_.async_proxy || earlier.async_proxy || earlier.role == Role::kCpAsync || space == Space::kReg)
    return true;
  const unsigned where = space == Space::kShared ? 1 : 0;
  if (view.fenced[where].covers(earlier.slot, earlier.clock)) return true;
  const LaneHistory* const history = view.history(earlier.slot, earlier.clock, by);
  return history != nullptr && history->fenced[where];
}

bool Judgement::past(const Record& earlier) {
  for (const View* const view : views_) {
    const View* const known = earlier.cluster == record_.cluster ? view : view->of(earlier.cluster);
    if (known == nullptr || !(ordered(*known, earlier, earlier.lanes) || by_registers(earlier, *known)))
      return false;
  }
  return true;
}

bool Judgement::alone() const {
  return std::all_of(views_.begin(), views_.end(), [](const View* view) { return view->foreign == nullptr; });
}

Judge::Verdict Judgement::judge(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane) {
  if (!writes && !earlier_writes) return Verdict::kOrdered;
  if (earlier.together) earlier_lane = kNoLane;
  if (morally_strong(record_, earlier)) return Verdict::kOrdered;
  if (issued_together(earlier) || made_together(earlier)) return Verdict::kOrderedForLane;
  if (reads_map) return judge_map(earlier, earlier_writes, earlier_lane);
  if (earlier.cluster != record_.cluster) return judge_foreign(earlier, earlier_writes);
  const bool thread = record_.role == Role::kThread;
  const std::uint32_t by = lanes_of(earlier, earlier_lane);
  if (thread && earlier.role == Role::kThread && earlier.slot == record_.slot)
    return judge_lanes(earlier, earlier_writes, earlier_lane);
  Verdict verdict = Verdict::kOrdered;
  for (std::size_t i = 0; i < views_.size(); ++i) {
    if (!counts(i)) continue;
    const View* const view = views_[i];
    if (!ordered(*view, earlier, by)) {
      if (by_registers(earlier, *view)) {
        report(earlier, false, earlier_lane, "unwaited_tensor_load",
               "tcgen05.wait::ld is missing between; that its registers have been used does not order its "
               "reads");
        return Verdict::kOrdered;
      }
      if (earlier_writes && (same_value(earlier, earlier_lane) || unchanged()))
        return Verdict::kOrderedForLane;
      race(earlier, earlier_writes, earlier_lane, *view);
      return Verdict::kRace;
    }
    if (earlier_writes && !fenced(*view, earlier, by)) {
      report(earlier, true, earlier_lane, "missing_proxy_fence",
             "fence.proxy.async is missing after the write; everything else orders the two");
      return Verdict::kRace;
    }
    if (!view->seen.covers(earlier.slot, earlier.clock) && !view->lanes.empty())
      verdict = Verdict::kOrderedForLane;
  }
  return verdict;
}

// A map that was written in this launch is seen by copies after both fences, anywhere on the way.
Judge::Verdict Judgement::judge_map(const Record& earlier, bool earlier_writes, std::uint32_t earlier_lane) {
  static const View kNothing;
  const View& own = *views_.front();
  const bool here = earlier.cluster == record_.cluster;
  const View* const found = here ? &own : own.of(earlier.cluster);
  const View& known = found == nullptr ? kNothing : *found;
  const std::uint32_t by = lanes_of(earlier, earlier_lane);
  if (!known.covers(earlier.slot, earlier.clock, by)) {
    race(earlier, earlier_writes, earlier_lane, known);
    return Verdict::kOrdered;  // once is enough
  }
  if (!known.seen.covers(earlier.slot, earlier.clock)) return Verdict::kOrdered;  // its fences are not known
  const auto covers = [&](const Clock& clock) { return clock.covers(earlier.slot, earlier.clock); };
  const bool released = known.maps != nullptr && covers(known.maps->released);
  if (released) {
    const auto acquired = known.maps->acquired.find(map);
    if (acquired != known.maps->acquired.end() && covers(acquired->second)) return Verdict::kOrdered;
  }
  report(earlier, earlier_writes, earlier_lane, "missing_tensormap_fence",
         released ? "fence.proxy.tensormap::generic.acquire of this map is missing after the write"
                  : "fence.proxy.tensormap::generic.release is missing after the write");
  return Verdict::kOrdered;
}

// Lanes of one strand: each in its own order, and ordered with each other where they have synchronised.
Judge::Verdict Judgement::judge_lanes(const Record& earlier, bool earlier_writes,
                                      std::uint32_t earlier_lane) {
  if (earlier.clock < met) return Verdict::kOrdered;
  if (earlier_lane == kNoLane || lane == kNoLane || earlier_lane == lane) return Verdict::kOrderedForLane;
  if (earlier_writes && (same_value(earlier, earlier_lane) || (earlier.pc != record_.pc && unchanged())))
    return Verdict::kOrderedForLane;
  if (plain_read_beside_atomic(earlier, earlier_writes)) {
    report_plain_read(earlier, earlier_writes, earlier_lane);
  } else if (both_update(earlier)) {
    report_updates(earlier, earlier_writes, earlier_lane);
  } else if (earlier.pc == record_.pc) {
    report(earlier, earlier_writes, earlier_lane, "lanes_collide",
           "lanes of one instruction write different values to one address");
  } else {
    report(earlier, earlier_writes, earlier_lane, "missing_warp_sync", kMissingWarpSync);
  }
  return Verdict::kRace;
}

Judge::Verdict Judgement::judge_foreign(const Record& earlier, bool earlier_writes) {
  for (const View* const view : views_) {
    const View* const known = view->of(earlier.cluster);
    if (known == nullptr || !known->covers(earlier.slot, earlier.clock, earlier.lanes)) {
      if (earlier_writes && unchanged()) return Verdict::kOrderedForLane;
      static const View kNothing;
      race(earlier, earlier_writes, kNoLane, known == nullptr ? kNothing : *known);
      return Verdict::kRace;
    }
    if (earlier_writes && !fenced(*known, earlier, earlier.lanes)) {
      report(earlier, true, kNoLane, "missing_proxy_fence",
             "fence.proxy.async is missing after the write; everything else orders the two");
      return Verdict::kRace;
    }
  }
  return Verdict::kOrdered;
}

// Whether the two are lanes of one store that write the same.
bool Judgement::same_value(const Record& earlier, std::uint32_t earlier_lane) const {
  return earlier.pc == record_.pc && earlier.warp == record_.warp && earlier.cta == record_.cta &&
         !record_.strong && writes && earlier_lane != kNoLane && lane != kNoLane &&
         stores_alike(*actor_.warp, actor_.inst, lane, earlier_lane);
}

// Whether this write has left what the other had written. Threads that hold copies of a value (as layouts of
// Triton's do) may all write it.
bool Judgement::unchanged() {
  if (!stores || std::memcmp(now + 4 * word, then + 4 * word, span) != 0) return false;
  each_word = true;
  return true;
}

}  // namespace sglab::emu::races
