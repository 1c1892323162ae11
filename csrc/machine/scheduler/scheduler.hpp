#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/scheduler/rest.hpp"

namespace sglab::emu {

constexpr std::uint64_t kSlice = 1u << 15;  // warp-instructions a cluster runs before another one has a turn

// One host thread's share of a launch: which clusters are running, whose turn it is, which of its warps runs,
// and at which instruction. Plain runs and stepped ones are this one loop, in the same order.
//
// Clusters take turns of kSlice instructions, the warps of a cluster turns of a quantum. A new cluster is
// only started when all running ones have had a turn and have not finished.
//
// Its position is a value, State: the scheduler may stop after any instruction and continue, or be set back
// to an earlier State. A Pace (turn.hpp) says how far one call goes.
class Scheduler {
 public:
  // A warp's: `inst` is the next one to attempt.
  struct Turn {
    Warp* warp = nullptr;
    const Inst* inst = nullptr;
    std::uint64_t done = 0, limit = 0;
    bool forced = false;  // this warp was chosen explicitly
  };
  // The active cluster's turn, in a round of turns of all that are running.
  struct Round {
    Cluster* active = nullptr;  // not among State::running meanwhile
    std::uint64_t until = 0;
    std::size_t turns = 0;     // clusters that still have a turn before another one may start
    std::uint64_t events = 0;  // of the cluster when its turn began
    Rest rest;
    std::size_t alone = 0;  // turns since no worker is busy
  };
  struct State {
    Turn turn;
    Round round;
    std::deque<Cluster*> running;
  };

  // All schedulers of a launch share its clusters.
  Scheduler(Launch& launch, Tally& tally);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;

  const State& state() const { return state_; }
  // Clusters that do not run in `state` are free to be started again.
  void restore(const State& state);

  // Nothing runs and nothing is left to start.
  bool over() const;
  // A whole turn of a cluster: the one that had it, or nullptr if none was left.
  const Cluster* run_turn();
  // The start of a cluster, the choice of a warp, or an attempt as `pace` says.
  template <class Pace>
  void advance(Pace& pace);
  // The same for one attempt by this warp, whose turn it need not be. False: none of its lanes can continue.
  template <class Pace>
  bool force(Warp& warp, Pace& pace);

  // Leaves the cluster in whose turn a fault was thrown just now, so that others can go on.
  void abandon();

  // All that were ever started; the same objects serve later clusters.
  const std::vector<std::unique_ptr<Cluster>>& owned() const { return owned_; }
  // The one that a fault thrown just now refers to.
  const Cluster* at_fault() const;

 private:
  void drop_later();
  void next_cluster();
  void start_cluster();
  void next_turn();
  void end_cluster_turn();
  void look_for_rest();
  void set_busy(bool busy);
  void stall(Warp& warp);
  bool begin(Warp& warp, std::uint64_t limit, bool forced);
  void end_turn();
  void end_warp_turn(bool stalled);
  void retire(Cluster& cluster);
  template <class Pace>
  void attempt(Pace& pace);
  template <bool kExact, class Pace, class Execute>
  void attempt(Pace& pace, Execute execute);

  Launch& launch_;
  Tally& tally_;
  State state_;
  bool busy_ = true;
  std::vector<Cluster*> idle_;
  std::vector<std::unique_ptr<Cluster>> owned_;
};

// Who uses which barrier of a cluster, mbarriers included.
void add_barriers(Tally& tally, const Cluster& cluster);

}  // namespace sglab::emu
