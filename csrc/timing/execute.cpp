#include <algorithm>

#include "timing/clock.hpp"

// What each instruction does to the clock.
namespace sglab::emu::timing {
namespace {

constexpr double kQueue = 24;  // cycles of work that may wait at an SM's unit before warps stall

Stall producer_of(const Cost& cost) {
  switch (cost.action) {
    case Action::kGlobal:
      return Stall::kGlobal;
    case Action::kTmemLoad:
    case Action::kTmemWait:
    case Action::kWait:
      return Stall::kTensor;
    default:
      if (cost.unit == Unit::kTensor) return Stall::kTensor;
      return cost.unit == Unit::kLsu ? Stall::kShared : Stall::kArithmetic;
  }
}

}  // namespace

// Takes an issue slot and the unit. Units of a sub-partition make the warp wait; those of the SM have a
// queue.
Clock::Issued Clock::issue(Warp& w, const Cost& cost, double busy) {
  Part& part = sms_[w.sm].parts[w.part];
  double time = w.key;
  if (cost.slots > 0) {
    if (part.issue.free > time) {
      time = part.issue.free;
      w.why = Stall::kIssue;
    }
    part.issue.free = time + cost.slots;
  }
  if (cost.unit == Unit::kNone) return {time, time};
  if (cost.unit <= Unit::kTensor) {
    Server& unit = part.units[static_cast<int>(cost.unit)];
    const double taken = std::max(time, unit.free);
    unit.serve(time, busy);
    if (cost.action == Action::kWgmma) return {time, taken + busy};
    if (taken > time) w.why = Stall::kUnit;
    return {taken, taken};
  }
  Server& unit = cost.unit == Unit::kLsu ? sms_[w.sm].lsu : sms_[w.sm].async;
  if (unit.free - kQueue > time) {
    time = unit.free - kQueue;
    w.why = Stall::kUnit;
  }
  return {time, unit.serve(time, busy)};
}

void Clock::fill(Warp& w, double time, Stall producer) {
  w.done[w.position] = time;
  w.filled_by[w.position] = producer;
}

// A move costs nothing; its destination is ready when its sources are.
void Clock::rename(Warp& w) {
  double time = w.next;
  Stall from = Stall::kArithmetic;
  visit_sources(w, [&](double ready, Stall producer) {
    if (ready <= time) return;
    time = ready;
    from = producer;
  });
  fill(w, time, from);
  out_.issue[w.event] = w.next;
  out_.end[w.event] = w.next;
}

// `blocks`: the warp continues when the instruction has ended; the wait counts as the instruction's own.
void Clock::end_event(Warp& w, const Cost& cost, double issued, double end, bool blocks, Stall why) {
  const double held = blocks ? end - cost.latency - w.next : issued - w.next;
  out_.issue[w.event] = issued;
  out_.end[w.event] = end;
  w.end = std::max(w.end, end);
  out_.stalled[w.event] = static_cast<float>(std::max(held, 0.0));
  const bool own = blocks && end - cost.latency > issued;
  out_.stall[w.event] = static_cast<std::uint8_t>(held <= 0 ? Stall::kNone : own ? why : w.why);
  w.next = blocks ? end : issued + std::max<double>(cost.slots, 0);
}

bool Clock::execute(std::uint32_t warp) {
  Warp& w = warps_[warp];
  const Cost& cost = t_.costs[w.pc];
  const std::uint64_t event = w.event;
  double end;
  bool blocks = false;
  Stall why = Stall::kNone;
  Issued issued{w.key, w.key};
  if (removed(w)) {
    rename(w);
    return true;
  }
  switch (cost.action) {
    case Action::kGlobal:
      issued = issue(w, cost, lsu_cycles(event));
      end = global(w, cost, event, issued.time);
      break;
    case Action::kShared: {
      bool remote = false;
      const double wavefronts = cost.busy > 0 ? cost.busy : shared_cycles(w, event, remote);
      issued = issue(w, cost, wavefronts);
      end = issued.served + cost.latency + 2 * (wavefronts - 1) + (remote ? m_.remote_latency : 0);
      break;
    }
    case Action::kArrive: {
      issued = issue(w, cost, cost.busy);
      end = issued.served + cost.latency;
      const std::int64_t row = barrier_row(event);
      if (row >= 0) arrival(w, row, issued.served);
      break;
    }
    case Action::kNamedWait:
    case Action::kPhaseWait: {
      issued = issue(w, cost, cost.busy);
      out_.issue[event] = issued.time;
      const std::int64_t row = barrier_row(event);
      const std::int64_t phase = row < 0 ? kNoPhase : passed_phase(t_, static_cast<std::size_t>(row));
      if (row >= 0 && cost.action == Action::kNamedWait) arrival(w, row, issued.time);
      if (phase != kNoPhase && hold(warp, phase)) return false;
      end = issued.served + cost.latency;
      if (phase != kNoPhase) end = std::max(end, released(w, static_cast<std::uint32_t>(phase)));
      why = row >= 0 && t_.barriers.kind[static_cast<std::size_t>(row)] == kMbarrier ? Stall::kMbarrier
                                                                                     : Stall::kBarrier;
      blocks = true;
      break;
    }
    case Action::kBlock:
      issued = issue(w, cost, cost.busy);
      end = issued.served + cost.latency;
      blocks = true;
      break;
    case Action::kCopy:
    case Action::kCpAsync:
      issued = issue(w, cost, cost.busy);
      copy(w, event, issued.served);
      end = issued.served + cost.latency;
      break;
    case Action::kCommit: {
      issued = issue(w, cost, cost.busy);
      end = issued.time + cost.latency;
      Groups& groups = w.groups[static_cast<int>(cost.group)];
      groups.done.push_back(groups.open);
      groups.read.push_back(groups.open_read);
      groups.open = groups.open_read = 0;
      break;
    }
    case Action::kWait:
      issued = issue(w, cost, cost.busy);
      end = std::max(issued.time, wait(w, cost)) + cost.latency;
      why = cost.group == Group::kWgmma ? Stall::kTensor : Stall::kCopy;
      blocks = true;
      break;
    case Action::kCpAsyncArrive: {
      issued = issue(w, cost, cost.busy);
      end = issued.served + cost.latency;
      const std::int64_t row = barrier_row(event);
      if (row >= 0) arrival(w, row, std::max(issued.served, w.copies));
      break;
    }
    case Action::kWgmma: {
      issued = issue(w, cost, cost.busy);
      end = issued.served + cost.latency;
      Groups& groups = w.groups[static_cast<int>(Group::kWgmma)];
      groups.open = std::max(groups.open, end);
      end_event(w, cost, issued.time, end, false, why);
      return true;  // its registers are filled by the wait
    }
    case Action::kTcgen05:
    case Action::kTmemLoad:
    case Action::kTmemStore:
      issued = issue(w, cost, cost.busy);
      end = tcgen05(w, cost, event, issued.served);
      break;
    case Action::kTcgen05Commit:
      issued = issue(w, cost, cost.busy);
      end = issued.served + cost.latency;
      commit(event, std::max(issued.served, w.tensor) + cost.latency);
      break;
    case Action::kTmemWait:
      issued = issue(w, cost, cost.busy);
      end = std::max(issued.time, w.tmem[cost.argument]) + cost.latency;
      why = Stall::kTensor;
      blocks = true;
      break;
    default:
      issued = issue(w, cost, cost.busy);
      end = issued.served + cost.latency;
  }
  fill(w, end, producer_of(cost));
  end_event(w, cost, issued.time, end, blocks, why);
  return true;
}

}  // namespace sglab::emu::timing
