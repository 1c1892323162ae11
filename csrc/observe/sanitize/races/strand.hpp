#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "observe/sanitize/detector.hpp"
#include "observe/sanitize/races/clock.hpp"

namespace sglab::emu::races {

using ViewPtr = std::shared_ptr<const View>;

// A view that a synchronising operation left for others to acquire.
struct Left {
  ViewPtr view;
  std::uint64_t cluster = 0;
  std::uint32_t cta = 0;  // linear index in the grid
  Scope scope = Scope::kGpu;
  bool weak = false;  // by an operation that leaves nothing, neither on its own nor through a fence before it
};

// Lanes of one warp that know the same: one thread of execution. A warp starts as one strand. Lanes that
// synchronise with others on their own become a strand of their own, until a barrier or bar.warp.sync makes
// them one again: that lanes run together is no order, since Volta.
struct Strand {
  std::uint32_t lanes = 0;
  std::uint32_t slot = 0, clock = 1;
  std::uint32_t met = 1;       // the lanes last synchronised with each other at this time of theirs
  std::uint32_t accessed = 0;  // when they last accessed memory
  std::uint32_t wgmma = 0;     // when they last issued a wgmma
  bool published = false;      // others know this clock: what comes next needs a new one
  std::shared_ptr<View> view;
  // The view at the last fence of at least this scope (kSys: kGpu); at tcgen05.fence::before_thread_sync, and
  // at fence.mbarrier_init. They are what a relaxed operation releases.
  std::array<ViewPtr, 3> fences;
  ViewPtr before_tensor, before_init;
  // What relaxed operations have found and a fence would make known; what tcgen05.fence::after_thread_sync
  // would.
  std::vector<Left> found;
  Clock tensor_found;
};

// Operations that complete in the order of their issue, or in groups.
struct Channel {
  std::uint32_t slot = 0, second_slot = 0;
  std::uint32_t count = 0;            // issued
  std::vector<std::uint32_t> groups;  // counts when groups were committed
};

// Threads and asynchronous operations of one running cluster, and what each knows.
class Threads {
 public:
  explicit Threads(const Cluster& cluster);

  std::uint64_t cluster() const { return cluster_; }
  std::uint32_t new_slot() { return slots_++; }

  // Calls f(strand) for strands made of these lanes of a warp exactly.
  template <class F>
  void each(const Warp& warp, std::uint32_t lanes, F f) {
    Team& team = teams_[warp.slot];
    split(team, lanes);
    for (std::size_t i = 0; i < team.strands.size(); ++i) {
      if ((team.strands[i].lanes & lanes) != 0) f(team.strands[i]);
    }
  }
  // The same without splitting: f(strand, its lanes among these).
  template <class F>
  void each_part(const Warp& warp, std::uint32_t lanes, F f) {
    for (Strand& strand : teams_[warp.slot].strands) {
      if ((strand.lanes & lanes) != 0) f(strand, strand.lanes & lanes);
    }
  }
  // The lanes have synchronised with each other.
  void meet(const Warp& warp, std::uint32_t lanes);

  // Time passes for a strand if others know its clock. Before each of its accesses.
  void tick(Strand& strand);
  // What a strand knows now, for others to keep; its later accesses are not in it.
  ViewPtr publish(Strand& strand);
  View& change(Strand& strand);
  // What the strand that keeps this slot knows; nullptr: no strand does any more.
  const View* knowledge(std::uint32_t slot) const;

  // Whether any thread of a CTA knows of what these lanes have done.
  bool known_to(const Cta& cta, std::uint32_t slot, std::uint32_t clock, std::uint32_t lanes) const;

  // Groups of bulk copies are per lane, cp.async and wgmma per warp, tcgen05 per issuing lane.
  enum class Line : std::uint8_t {
    kBulk,
    kCpAsync,
    kWgmma,
    kWgmmaGroups,
    kTensor,
    kTensorLoad,
    kTensorStore
  };
  Channel& channel(Line line, const Warp& warp, std::uint32_t lane = 0);
  // nullptr: nothing was issued there.
  Channel* find_channel(Line line, const Warp& warp, std::uint32_t lane = 0);

 private:
  struct Team {
    std::vector<Strand, Pooled<Strand>> strands;
    std::vector<std::uint32_t> spare;        // slots of strands that have joined others
    std::vector<std::uint32_t> spare_clock;  // and how far they had come
  };
  static std::uint64_t key(Line line, const Warp& warp, std::uint32_t lane);
  void split(Team& team, std::uint32_t lanes);

  std::uint64_t cluster_;
  std::uint32_t slots_ = 0;
  std::vector<Team> teams_;  // by Warp::slot
  PooledMap<std::uint64_t, Channel> channels_;
};

}  // namespace sglab::emu::races
