#include <algorithm>

#include "emulator/timing/clock.hpp"

// What each instruction does to the clock.
namespace sglab::emu::timing {
namespace {

constexpr std::uint32_t kRankShift = 24;
constexpr double kWavefront = 128;  // bytes that shared memory or the L1 cache moves per cycle
constexpr double kQueue = 24;       // cycles of work that may wait at an SM's unit before warps stall
constexpr std::uint8_t kNamed = 0, kMbarrier = 1;
constexpr std::uint8_t kWrites = 2, kBoth = 3;
enum CopyKind : std::uint8_t {
  kTensorLoad,
  kTensorStore,
  kTensorReduce,
  kBulkLoad,
  kBulkStore,
  kSharedToShared,
  kBulkReduce,
  kReduceToShared,
  kStoreWords,
  kTensorPrefetch,
  kBulkPrefetch,
  kSmallCopy,
};

std::size_t first_row(std::span<const std::uint64_t> events, std::uint64_t event) {
  return static_cast<std::size_t>(std::lower_bound(events.begin(), events.end(), event) - events.begin());
}

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
    const double taken = unit.serve(time, busy) - busy;
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

void Clock::fill(Warp& w, std::uint32_t pc, double time, Stall producer) {
  for (std::uint32_t i = mention_begin_[pc]; i < mention_begin_[pc + 1]; ++i) {
    if (!t_.mentions[i].definition) continue;
    const std::size_t place = w.registers + t_.mentions[i].slot;
    ready_[place] = time;
    producer_[place] = producer;
  }
}

// A move costs nothing; its destination is ready when its sources are.
void Clock::rename(Warp& w, std::uint32_t pc) {
  double time = w.next;
  Stall producer = Stall::kArithmetic;
  for (std::uint32_t i = mention_begin_[pc]; i < mention_begin_[pc + 1]; ++i) {
    const std::size_t place = w.registers + t_.mentions[i].slot;
    if (t_.mentions[i].definition || ready_[place] <= time) continue;
    time = ready_[place];
    producer = producer_[place];
  }
  fill(w, pc, time, producer);
  out_.issue[w.event] = w.next;
  out_.end[w.event] = w.next;
}

// `blocks`: the warp goes on when the instruction has ended; the wait counts as the instruction's own.
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
  const std::uint32_t at = pc(w);
  const Cost& cost = t_.costs[at];
  const std::uint64_t event = w.event;
  double end;
  bool blocks = false;
  Stall why = Stall::kNone;
  Issued issued{w.key, w.key};
  switch (cost.action) {
    case Action::kMove:
      rename(w, at);
      return true;
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
      const std::int64_t phase = row < 0 ? kNoPhase : t_.barriers.passed[static_cast<std::size_t>(row)];
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
      commit(w, event, std::max(issued.served, w.tensor) + cost.latency);
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
  fill(w, at, end, producer_of(cost));
  end_event(w, cost, issued.time, end, blocks, why);
  return true;
}

double Clock::lsu_cycles(std::uint64_t event) const {
  double bytes = 0;
  for (std::size_t row = first_row(t_.accesses.event, event);
       row < t_.accesses.event.size() && t_.accesses.event[row] == event; ++row)
    bytes += t_.accesses.bytes[row];
  return std::max(1.0, bytes / kWavefront);
}

double Clock::shared_cycles(const Warp& w, std::uint64_t event, bool& remote) const {
  const std::size_t row = first_row(t_.accesses.event, event);
  if (row == t_.accesses.event.size() || t_.accesses.event[row] != event) return 1;
  remote = t_.accesses.address[row] >> kRankShift != t_.rank_of[w.cta];
  return std::max(1.0, t_.accesses.bytes[row] / kWavefront);
}

// Generic instructions may reach shared memory, too.
double Clock::global(Warp& w, const Cost& cost, std::uint64_t event, double time) {
  double end = time + 1;
  for (std::size_t row = first_row(t_.accesses.event, event);
       row < t_.accesses.event.size() && t_.accesses.event[row] == event; ++row) {
    double done;
    if (t_.accesses.space[row] != 0) {
      done = time + cost.latency;
    } else if (t_.accesses.kind[row] == kBoth) {
      done = memory_.atomic(w.sm, time, row);
    } else if (t_.accesses.kind[row] == kWrites) {
      done = memory_.store(w.sm, time, row);
    } else {
      done = memory_.load(w.sm, time, row, cost.cached);
    }
    end = std::max(end, done);
  }
  return end;
}

double Clock::copy(Warp& w, std::uint64_t event, double time) {
  double last = time;
  for (std::size_t row = first_row(t_.copies.event, event);
       row < t_.copies.event.size() && t_.copies.event[row] == event; ++row) {
    double done = time, read = time;
    const std::uint8_t kind = t_.copies.kind[row];
    Groups& bulk = w.groups[static_cast<int>(Group::kBulk)];
    switch (kind) {
      case kTensorLoad:
      case kTensorPrefetch:
        done = memory_.copy_in(w.sm, time, row, m_.tensor_copy_latency);
        break;
      case kBulkLoad:
      case kBulkPrefetch:
        done = memory_.copy_in(w.sm, time, row, m_.copy_latency);
        break;
      case kSmallCopy: {
        done = memory_.copy_in(w.sm, time, row, m_.cp_async_latency);
        Groups& small = w.groups[static_cast<int>(Group::kCpAsync)];
        small.open = std::max(small.open, done);
        w.copies = std::max(w.copies, done);
        break;
      }
      case kSharedToShared:
      case kReduceToShared:
      case kStoreWords:
        done = time + m_.remote_latency + t_.copies.bytes[row] / m_.copy_store_port;
        break;
      default:
        done = memory_.copy_out(w.sm, time, row, read);
        bulk.open = std::max(bulk.open, done);
        bulk.open_read = std::max(bulk.open_read, read);
    }
    out_.copy_start[row] = time;
    out_.copy_end[row] = done;
    for (std::uint32_t i = contributions_.copy_begin[row]; i < contributions_.copy_begin[row + 1]; ++i)
      contribute(contributions_.copy_phases[i], done);
    last = std::max(last, done);
  }
  return last;
}

// When all but the youngest `argument` groups are complete. A negative argument waits for uncommitted copies,
// too.
double Clock::wait(Warp& w, const Cost& cost) {
  Groups& groups = w.groups[static_cast<int>(cost.group)];
  std::vector<double>& of = cost.read_only ? groups.read : groups.done;
  double time = cost.argument < 0 ? groups.open : 0;
  const std::size_t stay = static_cast<std::size_t>(std::max(cost.argument, 0));
  const std::size_t leave = of.size() > stay ? of.size() - stay : 0;
  for (std::size_t i = 0; i < leave; ++i) time = std::max(time, of[i]);
  if (!cost.read_only) {
    groups.done.erase(groups.done.begin(), groups.done.begin() + static_cast<std::ptrdiff_t>(leave));
    groups.read.erase(groups.read.begin(), groups.read.begin() + static_cast<std::ptrdiff_t>(leave));
  }
  return time;
}

double Clock::tcgen05(Warp& w, const Cost& cost, std::uint64_t event, double time) {
  double end = time + cost.latency;
  for (std::size_t row = first_row(t_.tcgen05.event, event);
       row < t_.tcgen05.event.size() && t_.tcgen05.event[row] == event; ++row) {
    const double busy = t_.tcgen05.busy[row], latency = t_.tcgen05.latency[row];
    double start;
    if (cost.action == Action::kTcgen05) {
      Server& own = sms_[w.sm].tensor;
      start = own.serve(time, busy) - busy;
      if (t_.tcgen05.cta_group[row] == 2) {
        const std::uint32_t peer =
            members_[std::size_t{t_.cluster_of[w.cta]} * t_.cluster_size + (t_.rank_of[w.cta] ^ 1u)];
        start = std::max(start, sms_[out_.cta_sm[peer]].tensor.free);
        own.free = sms_[out_.cta_sm[peer]].tensor.free = start + busy;
      }
      w.tensor = std::max(w.tensor, start + busy + latency);
    } else {
      const bool stores = cost.action == Action::kTmemStore;
      Server& port = sms_[w.sm].parts[w.part].units[static_cast<int>(Unit::kTensor)];
      start = port.serve(time, busy) - busy;
      w.tmem[stores] = std::max(w.tmem[stores], start + busy + latency);
    }
    out_.tcgen05_start[row] = start;
    out_.tcgen05_end[row] = start + busy + latency;
    end = std::max(end, start + busy + latency);
  }
  return end;
}

void Clock::commit(Warp&, std::uint64_t event, double time) {
  const auto& commits = contributions_.commits;
  auto at =
      std::lower_bound(commits.begin(), commits.end(), event,
                       [](const Contributions::Asynchronous& c, std::uint64_t e) { return c.event < e; });
  for (; at != commits.end() && at->event == event; ++at) contribute(at->phase, time);
}

std::int64_t Clock::barrier_row(std::uint64_t event) const {
  const std::size_t row = first_row(t_.barriers.event, event);
  const bool found = row < t_.barriers.event.size() && t_.barriers.event[row] == event;
  return found ? static_cast<std::int64_t>(row) : -1;
}

double Clock::arrival(Warp& w, std::int64_t row, double time) {
  const auto at = static_cast<std::size_t>(row);
  if (t_.barriers.kind[at] == kNamed) time = sms_[w.sm].barrier.serve(time, m_.barrier_arrive);
  const std::int64_t phase = contributions_.of_barrier[at];
  if (phase != kNoPhase) contribute(static_cast<std::uint32_t>(phase), time);
  return time;
}

// When a warp that waits for a phase goes on.
double Clock::released(const Warp& w, std::uint32_t phase) const {
  const std::uint8_t kind = t_.phases.kind[phase];
  if (kind == kNamed) return phases_[phase].time + m_.barrier_latency;
  if (kind != kMbarrier) return phases_[phase].time + m_.cluster_latency;
  const bool remote = t_.phases.object[phase] >> kRankShift != t_.rank_of[w.cta];
  return phases_[phase].time + m_.mbarrier_latency + (remote ? m_.remote_latency : 0);
}

bool Clock::hold(std::uint32_t warp, std::int64_t phase) {
  Phase& p = phases_[static_cast<std::size_t>(phase)];
  if (p.missing == 0) return false;
  p.parked.push_back(warp);
  return true;
}

void Clock::contribute(std::uint32_t phase, double time) {
  Phase& p = phases_[phase];
  p.time = std::max(p.time, time);
  if (p.missing == 0 || --p.missing != 0) return;
  wake(phase);
}

void Clock::wake(std::uint32_t phase) {
  std::vector<std::uint32_t> parked;
  parked.swap(phases_[phase].parked);
  for (const std::uint32_t warp : parked) {
    Warp& w = warps_[warp];
    const std::uint32_t at = pc(w);
    const Cost& cost = t_.costs[at];
    const double issued = out_.issue[w.event];
    const double end = std::max(issued + cost.latency, released(w, phase));
    fill(w, at, end, producer_of(cost));
    end_event(w, cost, issued, end, true,
              t_.phases.kind[phase] == kMbarrier ? Stall::kMbarrier : Stall::kBarrier);
    move_on(warp);
  }
}

}  // namespace sglab::emu::timing
