#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "machine/async/engine.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "machine/scheduler/circles.hpp"
#include "machine/scheduler/pages.hpp"
#include "machine/scheduler/scheduler.hpp"

namespace sglab::emu {

// A launch on one host thread that can be stopped after every instruction, saved and put back: a Scheduler
// under a pace that pauses. It counts what a plain run does not.
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

  bool over() const { return scheduler_.over(); }
  std::uint64_t now() const { return now_; }
  std::uint64_t ticks() const { return ticks_; }
  // The same in the midst of a tick or stretch: what the instruction being attempted will be, if it succeeds.
  std::uint64_t position() const {
    const Scheduler::Turn& turn = scheduler_.state().turn;
    if (turn.warp == nullptr) return now_;
    return now_ + counted_to(turn.inst) - counted_to(last_.first);
  }
  void tick();
  // What the next ticks do, up to where control turns, the lanes that run together change, or the next
  // instruction is `stop`; one attempt at least.
  void stretch(const Inst* stop = nullptr);
  // One attempt by this warp, whose turn it need not be. False: none of its lanes can continue.
  bool force(Warp& warp);

  // The instruction that the next tick attempts, if it attempts one.
  const Inst* next() const { return scheduler_.state().turn.inst; }
  Warp* turn_of() const { return scheduler_.state().turn.warp; }
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
  // The instruction executed last, and by whom; attempts that had to wait do not count. warp is nullptr
  // before the first.
  struct Ran {
    const Warp* warp = nullptr;
    const Inst* inst = nullptr;
    std::uint32_t mask = 0;
  };
  const Ran& ran() const { return ran_; }
  const Waiting* waiting(const Warp& warp, const Inst* inst) const;

  // Warp-instructions of a warp, those of a turn in progress included.
  std::uint64_t executed(const Warp& warp) const {
    const Scheduler::Turn& turn = scheduler_.state().turn;
    return warp.executed + (turn.warp == &warp ? turn.done : 0);
  }

  // Tensor memory keeps who wrote it, shared memory what was written; before the first instruction.
  void follow_writers();
  // The launch's observer is not notified meanwhile.
  void mute(bool muted) { muted_ = muted; }
  // Notified of everything from now on, of what is repeated as well.
  void attach(Observer& observer) { launch_->observers.add(observer); }
  void detach(Observer& observer) { launch_->observers.remove(observer); }
  // Instructions of PTX lines before this one in the program.
  std::uint32_t counted_to(const Inst* inst) const {
    return counted_[static_cast<std::size_t>(inst - launch_->program->code.data())];
  }

  // Clusters that have started and not finished.
  std::vector<Cluster*> clusters() const;
  Cluster* cluster(std::uint64_t index) const;
  const Launch& launch() const { return *launch_; }
  // Ticks up to which the launch's observer knows everything; what comes earlier is repeated silently.
  std::uint64_t reported() const { return reported_; }
  // From `start`, the state of the first tick, on: it is notified of everything again.
  void report_again(const Saved& start);
  // Notifies all observers of a fault.
  void failed(const Fault& fault) const {
    launch_->observers.notify([&](Observer& o) { o.failed(fault); });
  }
  // Throws LaunchFault if the launch has executed more than its limit, or never ends; where it has one.
  void check_limit();
  const Program& program() const { return *launch_->program; }
  std::vector<std::uint64_t> executions() const { return tally_.executions(); }  // by instruction
  // What warps have done and who uses which barrier, in all that was stepped so far.
  Tally tally() const;

  std::shared_ptr<const Saved> save(const Saved* before) const;
  void restore(const Saved& saved);
  std::size_t memory_bytes() const;  // that save() looks at
  std::uint64_t digest() const;      // of everything that a kernel could notice

 private:
  struct Stride;
  void watch();
  void attempted(const Inst* inst, const Inst* end);
  void note_wait(const Warp& warp, const Inst* end);
  std::vector<MemoryImage::Region> regions() const;

  std::unique_ptr<Launch> launch_;
  Tally tally_;  // `visited` is never taken back
  Scheduler scheduler_;
  Circles circles_;
  std::uint64_t now_ = 0, ticks_ = 0, reported_ = 0;
  bool muted_ = false, reporting_ = true;  // reporting_: the launch's observer is among the observers
  Last last_;
  Ran ran_;
  std::vector<Waiting> waiting_;
  std::uint64_t waits_ = 0;             // slots, modulo 64, of warps that may be in there
  std::vector<std::uint32_t> counted_;  // instructions of PTX lines before each
};

// All there is to know about a launch at one moment.
struct Stepper::Saved {
  struct Held {
    Cluster* cluster;
    ClusterState state;
    std::shared_ptr<const AsyncEngine::Saved> async;
  };
  std::uint64_t now, ticks;
  Scheduler::State scheduler;
  Last last;
  Ran ran;
  std::vector<Waiting> waiting;
  std::uint64_t next;  // cluster to start
  std::vector<Held> held;
  std::vector<std::int64_t> profile;
  PrintRing output;
  MemoryImage memory;
};

}  // namespace sglab::emu
