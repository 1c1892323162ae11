#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "machine/float/environment.hpp"
#include "machine/front/poll.hpp"
#include "machine/scheduler/run_launch.hpp"
#include "machine/scheduler/stepper.hpp"
#include "observe/debug/arrival.hpp"
#include "observe/debug/breakpoints.hpp"
#include "observe/debug/stores.hpp"
#include "observe/debug/writers.hpp"
#include "observe/record/events.hpp"

namespace sglab::emu {

enum class StopReason : std::uint8_t { kReached, kBreakpoint, kEnd, kExited, kInterrupted, kLimit, kStart };

struct Stop {
  StopReason reason = StopReason::kReached;
  std::uint32_t breakpoint = 0;
};

// A launch under control, forwards and backwards.
//
// Its history is what the scheduler does on its own plus the choices of the user who steps; both repeat
// exactly, so any earlier moment is the nearest checkpoint before it plus a replay. Positions are counted in
// executed warp-instructions. Going forward after going back follows the same history, until another warp is
// chosen.
class Session {
 public:
  // `interrupted` is asked now and then whether to stop.
  Session(std::shared_ptr<const Program> program, LaunchConfig config, std::function<bool()> interrupted);

  // Executes `count` warp-instructions, or up to the end.
  Stop step(std::uint64_t count);
  // `count` instructions of one warp. While it cannot continue, others run. kLimit: `most` were executed in
  // all.
  Stop step_warp(std::int64_t cta, std::uint32_t warp, std::uint64_t count, std::uint64_t most = kNoLimit);
  // As the scheduler goes, until the warp has arrived, or to a breakpoint. kExited: it will not arrive.
  Stop follow(const Arrival& arrival, std::uint64_t most = kNoLimit);
  // Up to a breakpoint or the end. kLimit: `most` were executed.
  Stop run(std::uint64_t most = kNoLimit);
  // To any position, back or forth. kEnd: the launch is shorter than that.
  Stop seek(std::uint64_t position);
  // To the very moment at which the stepper had made so many ticks. Positions are coarser: attempts that fail
  // and choices of warps are between them.
  Stop return_to(std::uint64_t ticks);

  // Who wrote a place last, before `limit`. These leave the session where they came to.
  std::optional<FoundWriter> writer_of(const MemoryPlace& place, EventOrder limit);
  // The moment at which the instruction at this position has been executed.
  EventOrder through(std::uint64_t position);
  // The wgmma that a warp issues at a position, as it is carried out.
  std::optional<FoundWriter> wgmma_at(const AccumulatorPlace& place, std::uint64_t position);

  static constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};

  // The events of the whole launch as it runs on its own, whatever warps were chosen; up to a fault if it has
  // one. The session stays where it is.
  LaunchReport record(EventLog& log, std::optional<Fault>& fault);

  // A fault during any of these is thrown as LaunchFault and stays until the session goes back.
  const std::optional<Fault>& fault() const { return fault_; }
  const Stepper& stepper() const { return stepper_; }
  Breakpoints& breakpoints() { return breakpoints_; }
  std::size_t checkpoints() const { return checkpoints_.size(); }
  std::size_t checkpoint_bytes() const { return checkpoint_bytes_; }

 private:
  friend class BackSearch;
  struct Choice {
    std::uint64_t ticks;
    std::uint64_t cluster;
    std::uint32_t slot;
    bool operator==(const Choice&) const = default;
  };
  using Checkpoint = std::shared_ptr<const Stepper::Saved>;

  template <class F>
  void guarded(F f);
  void advance();
  bool advance_to(const Arrival& arrival);
  void force(Warp& warp);
  bool chosen() const;
  template <class Over>
  void advance_with(Observer& observer, Over over);
  const Warp* attempting() const;
  std::uint32_t met(std::uint32_t only = 0);
  void rest_of_history_is_other(const Choice& choice);
  void keep();
  void thin();
  void go_back(const Checkpoint& checkpoint);
  bool interrupted();

  std::shared_ptr<const Program> program_;
  std::function<bool()> interrupted_;
  Stepper stepper_;
  Breakpoints breakpoints_;
  StoreFollower stores_;
  std::optional<Fault> fault_;
  std::vector<Choice> choices_;
  std::size_t choice_ = 0;  // the next one to come
  std::vector<Checkpoint> checkpoints_;
  std::uint64_t interval_ = 0;
  std::size_t checkpoint_bytes_ = 0;
  Poll poll_;
  std::uint32_t until_poll_ = 0;
};

template <class F>
void Session::guarded(F f) {
  if (fault_) throw LaunchFault(*fault_);
  const PlainArithmetic plain;
  try {
    f();
  } catch (const LaunchFault& caught) {
    fault_ = caught.fault;
    stepper_.failed(caught.fault);
    throw;
  } catch (const std::bad_alloc&) {
    fault_ = out_of_memory(stepper_.launch());
    throw LaunchFault(*fault_);
  }
}

}  // namespace sglab::emu
