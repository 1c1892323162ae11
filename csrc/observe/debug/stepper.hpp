#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "machine/async/engine.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/engine/rest.hpp"
#include "observe/debug/pages.hpp"
#include "observe/record/accesses.hpp"

namespace sglab::emu {

// A launch on one host thread that can be stopped after every instruction, saved and put back. Left alone, it
// does exactly what work() does with one thread, in the same order.
//
// It moves in ticks: the start of a cluster, the choice of a warp, the attempt at one instruction. Those of
// PTX lines that succeed are counted; `now` is their number.
class Stepper {
 public:
  Stepper(const Program& program, LaunchConfig config);
  ~Stepper();
  Stepper(const Stepper&) = delete;
  Stepper& operator=(const Stepper&) = delete;

  struct Saved;

  bool over() const;
  std::uint64_t now() const { return now_; }
  std::uint64_t ticks() const { return ticks_; }
  // The same in the midst of a tick or stretch: what the instruction being attempted will be, if it succeeds.
  std::uint64_t position() const {
    if (turn_.warp == nullptr) return now_;
    return now_ + counted_to(turn_.inst) - counted_to(last_.first);
  }
  void tick();
  // What the next ticks do, up to where control turns, the lanes that run together change, or the next
  // instruction is `stop`; one attempt at least.
  void stretch(const Inst* stop = nullptr);
  // One attempt by this warp, whose turn it need not be. False: none of its lanes can go on.
  bool force(Warp& warp);

  // The instruction that the next tick attempts, if it attempts one.
  const Inst* next() const { return turn_.inst; }
  Warp* turn_of() const { return turn_.warp; }
  // Lanes whose last attempt at an instruction failed: they wait there, since `since` instructions of the
  // launch.
  struct Waiting {
    const Warp* warp = nullptr;
    const Inst* inst = nullptr;
    std::uint64_t since = 0;
    Wait wait = Wait::kReady;  // for what; see Group
    std::uint64_t key = 0;
  };
  // Who attempted the last instructions, which (one, but for stretch()), and whether the last one succeeded.
  struct Last {
    Warp* warp = nullptr;
    const Inst *first = nullptr, *inst = nullptr;
    std::uint32_t mask = 0;
    bool done = false;
    Waiting waited;  // a wait that this ended; warp is nullptr if there was none
  };
  const Last& last() const { return last_; }
  const Waiting* waiting(const Warp& warp, const Inst* inst) const;

  // Warp-instructions of a warp, those of a turn in progress included.
  std::uint64_t executed(const Warp& warp) const {
    return warp.executed + (turn_.warp == &warp ? turn_.done : 0);
  }

  // Tensor memory keeps who wrote it, shared memory what was written; before the first instruction.
  void follow_writers();
  // Nothing is told to sanitizers meanwhile.
  void mute(bool muted) { muted_ = muted; }
  // Told of asynchronous operations from now on.
  void set_watcher(AsyncWatcher* watcher) { launch_->watcher = watcher; }
  // Instructions of PTX lines in front of this one in the program.
  std::uint32_t counted_to(const Inst* inst) const {
    return counted_[static_cast<std::size_t>(inst - launch_->program->code.data())];
  }

  // Clusters that have started and not finished.
  std::vector<Cluster*> clusters() const;
  Cluster* cluster(std::uint64_t index) const;
  const Launch& launch() const { return *launch_; }
  // Ticks up to which the launch's sanitizer has been told all; what lies before is repeated in silence.
  std::uint64_t told() const { return told_; }
  // From `start`, the state of the first tick, on: all is told once more.
  void tell_again(const Saved& start);
  const Program& program() const { return *launch_->program; }
  std::vector<std::uint64_t> executions() const;  // by instruction
  // What warps have done and who uses which barrier, in all that was stepped so far.
  Tally tally() const;

  std::shared_ptr<const Saved> save(const Saved* before) const;
  void restore(const Saved& saved);
  std::size_t memory_bytes() const;  // that save() looks at
  std::uint64_t digest() const;      // of everything that a kernel could notice

 private:
  struct Turn {
    Warp* warp = nullptr;
    const Inst* inst = nullptr;
    std::uint64_t done = 0, limit = 0;
    bool forced = false;
  };
  struct Round {
    Cluster* active = nullptr;  // taken from running_
    std::uint64_t until = 0;
    std::size_t turns = 0;     // clusters that still have a turn before another one may start
    std::uint64_t events = 0;  // of the cluster when its turn began
    Rest rest;
  };
  void next_cluster();
  void next_turn();
  void rest(Cluster& cluster);
  void attempt();
  void attempted(const Inst* next, bool forced);
  void begin(Warp& warp, std::uint64_t limit, bool forced);
  void attempted_alone(Warp& warp, const Inst* next);
  void attempted_in_run(Warp& warp, const Inst* next);
  void end_turn();
  void stall(Warp& warp);
  void retire(Cluster& cluster);
  void note_wait(const Warp& warp, const Inst* end);
  void watch();
  void mark_stores(const Warp& warp, const Inst* inst);
  const Inst* execute(Warp& warp, const Inst* inst) const;
  std::vector<MemoryImage::Region> regions() const;
  bool one_by_one() const;

  std::unique_ptr<Launch> launch_;
  std::uint64_t now_ = 0, ticks_ = 0, told_ = 0;
  bool muted_ = false;
  Turn turn_;
  Round round_;
  Last last_;
  std::vector<Waiting> waiting_;
  std::uint64_t waits_ = 0;  // slots, modulo 64, of warps that may be in there
  std::uint64_t next_ = 0;   // cluster to start
  std::deque<Cluster*> running_;
  std::vector<Cluster*> idle_;
  std::vector<std::unique_ptr<Cluster>> owned_;
  Tally tally_;                         // `visited` is never taken back
  std::vector<std::uint32_t> counted_;  // instructions of PTX lines in front of each
  std::vector<AccessForm>
      stores_;  // by instruction, those that write shared memory; where writes are followed
};

// All there is to know about a launch at one moment.
struct Stepper::Saved {
  struct Held {
    Cluster* cluster;
    ClusterState state;
    std::uint64_t idle_events;
    std::uint32_t idle_rounds;
    std::shared_ptr<const AsyncEngine::Saved> async;
  };
  std::uint64_t now, ticks;
  Turn turn;
  Round round;
  Last last;
  std::vector<Waiting> waiting;
  std::uint64_t next;
  std::deque<Cluster*> running;
  std::vector<Held> held;
  std::vector<std::int64_t> profile;
  std::size_t output;
  MemoryImage memory;
};

}  // namespace sglab::emu
