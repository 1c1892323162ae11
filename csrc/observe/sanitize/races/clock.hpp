#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "observe/sanitize/races/pooled.hpp"

namespace sglab::emu::races {

// A vector clock: by slot, how far its history is known. A slot never heard of is at 0.
class Clock {
 public:
  std::uint32_t operator[](std::uint32_t slot) const { return slot < at_.size() ? at_[slot] : 0; }
  bool covers(std::uint32_t slot, std::uint32_t time) const { return (*this)[slot] >= time; }

  void raise(std::uint32_t slot, std::uint32_t time) {
    if (slot >= at_.size()) at_.resize(slot + 1);
    if (at_[slot] < time) at_[slot] = time;
  }
  void lower(std::uint32_t slot, std::uint32_t time) {
    if (slot < at_.size() && at_[slot] > time) at_[slot] = time;
  }
  void join(const Clock& other) {
    if (at_.size() < other.at_.size()) at_.resize(other.at_.size());
    std::uint32_t* const mine = at_.data();
    const std::uint32_t* const theirs = other.at_.data();
    for (std::size_t i = 0; i < other.at_.size(); ++i) mine[i] = mine[i] < theirs[i] ? theirs[i] : mine[i];
  }

 private:
  std::vector<std::uint32_t, Pooled<std::uint32_t>> at_;
};

struct Foreign;

// Writes to tensor maps that a fence.proxy.tensormap covers: ::generic.release, and for copies by the
// map at an address ::generic.acquire as well.
struct MapFences {
  Clock released;
  std::map<std::uint64_t, Clock> acquired;
};

// Of what a slot did up to a time, what some lanes of its warp did: all that others know that synchronised
// with these lanes alone.
struct LaneHistory {
  std::uint32_t slot, time, lanes;
  bool fenced[2];  // as View::fenced
};

// What happens before a point of an execution, as seen from one cluster. Slots are the cluster's own; other
// clusters' histories, which only global memory can carry, are kept apart.
struct View {
  Clock seen;                                           // everything ordered before,
  std::vector<LaneHistory, Pooled<LaneHistory>> lanes;  // and beyond it this
  Clock fenced[2];    // of it, what a fence.proxy.async covers: in global, in shared memory
  Clock tensor;       // ordered before for tcgen05 operations only (tcgen05.fence); not joined
  Clock initialised;  // mbarrier initialisations ordered before (fence.mbarrier_init)
  Clock weak;         // would be ordered before, were the synchronisation on the way strong or wide enough
  std::shared_ptr<const MapFences> maps;   // nullptr: none
  std::shared_ptr<const Foreign> foreign;  // nullptr: nothing is known of other clusters

  // Whether this was ordered before: something that one of these lanes did.
  bool covers(std::uint32_t slot, std::uint32_t time, std::uint32_t by) const {
    return seen.covers(slot, time) || history(slot, time, by) != nullptr;
  }
  const LaneHistory* history(std::uint32_t slot, std::uint32_t time, std::uint32_t by) const {
    for (const LaneHistory& one : lanes) {
      if (one.slot == slot && one.time >= time && (one.lanes & by) != 0) return &one;
    }
    return nullptr;
  }
  // `other` belongs to the same cluster.
  void join(const View& other);
  // `other` belongs to cluster `theirs`, this to cluster `mine`.
  void join_from(std::uint64_t mine, const View& other, std::uint64_t theirs);
  // fence.proxy.tensormap: releases all that is known; acquires what was released to the map at an address.
  void release_maps();
  void acquire_map(std::uint64_t address);
  // What is known of another cluster; nullptr: nothing.
  const View* of(std::uint64_t cluster) const;
};

struct Foreign {
  std::vector<std::pair<std::uint64_t, View>> clusters;  // by number; without `foreign` of their own
};

}  // namespace sglab::emu::races
