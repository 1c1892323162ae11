#include <algorithm>
#include <bit>

#include "machine/async/engine.hpp"
#include "machine/engine/cluster.hpp"
#include "machine/engine/launch.hpp"
#include "observe/sanitize/deadlock.hpp"
#include "observe/sanitize/sanitizer.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint64_t kFairQuantum = 256;
// So that a spinning warp cannot starve the others for ever.
constexpr std::uint64_t kInOrderQuantum = 1u << 16;
constexpr std::uint64_t kRandomQuantum = 64;
constexpr std::uint64_t kVictimInstructions = 20000;
constexpr std::uint64_t kEarlyCompletion =
    16;  // turns per asynchronous operation that the random scheduler completes
constexpr std::uint32_t kIdleRounds = 16;  // time-outs without any event before a deadlock is called

// How an instruction is executed: with nobody to tell of it, or with a sanitizer.
struct Untold {
  const Inst* operator()(Warp& w, const Inst* inst) const { return inst->fn[w.partial](w, inst); }
};
struct Told {
  Sanitizer& sanitizer;
  const Inst* operator()(Warp& w, const Inst* inst) const { return sanitizer.execute(w, inst); }
};

bool is_runnable(const Warp& w) {
  return w.cluster->runnable[w.slot / 64] >> (w.slot % 64) & 1;
}

}  // namespace

// The next warp to run, or -1.
std::int64_t Cluster::pick() {
  const auto total = static_cast<std::uint32_t>(warps.size());
  const auto from = [&](std::uint32_t first) -> std::int64_t {
    for (std::uint32_t step = 0; step < runnable.size() + 1; ++step) {
      const std::uint32_t word = (first / 64 + step) % runnable.size();
      std::uint64_t bits = runnable[word];
      if (step == 0) bits &= ~std::uint64_t{0} << (first % 64);
      if (bits != 0) return word * 64 + std::countr_zero(bits);
    }
    return -1;
  };
  switch (launch->config.policy) {
    case Policy::kInOrder:
      return from(next_warp);
    case Policy::kRandom:
      return from(static_cast<std::uint32_t>(random() % total));
    case Policy::kAdversarial: {
      if (executed >= victim_until) {
        victim = static_cast<std::uint32_t>(random() % total);
        victim_until = executed + random() % kVictimInstructions;
      }
      const auto first = static_cast<std::uint32_t>(random() % total);
      const std::int64_t found = from(first);
      if (found != victim) return found;
      const std::int64_t other = from((victim + 1) % total);
      return other;  // the victim itself if nobody else can run
    }
    case Policy::kFair:
      break;
  }
  const std::int64_t found = from(next_warp);
  if (found >= 0) next_warp = static_cast<std::uint32_t>(found + 1) % total;
  return found;
}

std::uint64_t Cluster::quantum() {
  switch (launch->config.policy) {
    case Policy::kInOrder:
      return kInOrderQuantum;
    case Policy::kFair:
      return kFairQuantum;
    default:
      return 1 + random() % kRandomQuantum;
  }
}

// Runs whole stretches of straight code: the quantum is only checked where control turns.
void Cluster::run_warp(Warp& w, std::uint64_t limit) {
  if (launch->sanitizer != nullptr) return run_stretches(w, limit, Told{*launch->sanitizer});
  run_stretches(w, limit, Untold{});
}

template <class Execute>
void Cluster::run_stretches(Warp& w, std::uint64_t limit, Execute execute) {
  std::uint64_t done = 0;
  const Inst* inst = choose(w);
  while (inst != nullptr) {
    const Inst* const start = inst;
    const Inst* next;
    try {
      while ((next = execute(w, inst)) == inst + 1) ++inst;
    } catch (const LaunchFault&) {
      mark_visited(w.visited, static_cast<std::size_t>(start - w.code),
                   static_cast<std::size_t>(inst - w.code) + 1);
      throw;
    }
    const Inst* const end = w.retry ? inst : inst + 1;
    ++profile[start - w.code];
    --profile[end - w.code];
    mark_visited(w.visited, static_cast<std::size_t>(start - w.code), static_cast<std::size_t>(end - w.code));
    done += static_cast<std::uint64_t>(end - start);
    if (next == nullptr) {
      w.retry = false;
      next = choose(w);
    }
    if (next != nullptr && (done >= limit || w.yield)) {
      w.current().pc = static_cast<std::uint32_t>(next - w.code);
      w.yield = false;
      executed += done;
      w.executed += done;
      return;
    }
    inst = next;
  }
  executed += done;
  w.executed += done;
  w.yield = false;
  runnable[w.slot / 64] &= ~(std::uint64_t{1} << (w.slot % 64));
}

// The same, one instruction at a time.
void Cluster::step_warp(Warp& w, std::uint64_t limit) {
  if (launch->sanitizer != nullptr) return run_steps(w, limit, Told{*launch->sanitizer});
  run_steps(w, limit, Untold{});
}

template <class Execute>
void Cluster::run_steps(Warp& w, std::uint64_t limit, Execute execute) {
  const Inst* inst = choose(w);
  for (; inst != nullptr && limit > 0; --limit) {
    const Inst* const at = inst;
    const auto pc = static_cast<std::size_t>(at - w.code);
    w.visited[pc / 64] |= std::uint64_t{1} << (pc % 64);
    inst = execute(w, at);
    if (!w.retry) {
      ++profile[at - w.code];
      --profile[at + 1 - w.code];
      ++executed;
      ++w.executed;
    }
    if (inst == nullptr) {
      w.retry = false;
      inst = choose(w);
    }
    if (w.yield) limit = 1;
    w.yield = false;
  }
  if (inst != nullptr) {
    w.current().pc = static_cast<std::uint32_t>(inst - w.code);
  } else {
    runnable[w.slot / 64] &= ~(std::uint64_t{1} << (w.slot % 64));
  }
}

bool Cluster::run(std::uint64_t budget) {
  const bool exact =
      launch->config.policy == Policy::kRandom || launch->config.policy == Policy::kAdversarial;
  const std::uint64_t until = executed + budget;
  stuck = false;
  while (live_warps > 0) {
    if (executed >= until) return false;
    if (launch->stop.load(std::memory_order_relaxed)) return false;
    if (executed >= relief_at) relieve();
    if (exact) complete_early();
    const std::int64_t warp = pick();
    if (warp < 0) {
      if (resolve_idle()) continue;
      if (!left_to_others()) raise_deadlock();
      return false;
    }
    Warp& chosen = warps[static_cast<std::size_t>(warp)];
    if (exact) {
      step_warp(chosen, quantum());
    } else {
      run_warp(chosen, quantum());
    }
    turn_over(chosen);
  }
  if (async != nullptr) async->finish();
  if (launch->sanitizer != nullptr) launch->sanitizer->cluster_finished(*this);
  return true;
}

void Cluster::turn_over(const Warp& chosen) {
  if (launch->config.policy != Policy::kInOrder) return;
  next_warp = is_runnable(chosen) ? static_cast<std::uint32_t>((chosen.slot + 1) % warps.size()) : 0;
}

void Cluster::complete_early() {
  if (async != nullptr && random() % kEarlyCompletion == 0) async->advance(random());
}

void Cluster::relieve() {
  relief_at = executed + kReliefPeriod;
  part_siblings();
  if (async != nullptr) async->complete_overdue();
  time_out_waits();
}

bool Cluster::part_siblings() {
  bool any = false;
  for (Warp& w : warps) {
    if (w.hurry || w.group_count < 2 || is_runnable(w) || !emu::runnable(w)) continue;
    w.hurry = true;
    set_runnable(w);
    any = true;
  }
  return any;
}

bool Cluster::time_out_waits() {
  bool any = false;
  for (Warp& w : warps) {
    for (std::uint32_t i = 0; i < w.group_count; ++i) {
      Group& g = w.groups[i];
      if (g.wait != Wait::kMbarrier) continue;
      g.wait = Wait::kReady;
      g.released = true;
      set_runnable(w);
      any = true;
    }
  }
  return any;
}

// No warp can run. Lets lanes pass siblings they would rather have met, then lets timed waits run out.
bool Cluster::resolve_idle() {
  if (part_siblings()) return true;
  // Asynchronous operations are completed as late as this, one at a time.
  if (async != nullptr && async->advance(0)) return true;
  if (events != idle_events_) idle_rounds_ = 0;
  idle_events_ = events;
  return ++idle_rounds_ <= kIdleRounds && time_out_waits();
}

// Called when the time-outs of waits have led nowhere. The next turn lets them run out anew.
bool Cluster::left_to_others() {
  const auto gives_up = [](const Warp& w) {
    return std::any_of(w.groups.begin(), w.groups.begin() + w.group_count,
                       [](const Group& g) { return g.wait == Wait::kMbarrier; });
  };
  stuck = launch->cluster_total > 1 && std::any_of(warps.begin(), warps.end(), gives_up);
  idle_rounds_ = 0;
  return stuck;
}

std::string describe_wait(const Warp& w, const Group& g) {
  switch (g.wait) {
    case Wait::kReady:
      return "ready";
    case Wait::kWarp:
      return "for lanes " + hex(g.key & w.live) + " of its warp";
    case Wait::kBarrier: {
      const NamedBarrier& named = w.cta->barriers[g.key];
      return "at barrier " + std::to_string(g.key) + " (" + std::to_string(named.arrived) + " of " +
             std::to_string(named.expected != 0 ? named.expected : w.cta->live_lanes) +
             " threads have arrived)";
    }
    case Wait::kClusterBarrier:
      return "at the cluster barrier (" + std::to_string(w.cluster->barrier.arrived) + " of " +
             std::to_string(w.cluster->live_lanes) + " threads have arrived)";
    case Wait::kMbarrier:
      return "for the mbarrier at shared address " + hex(g.key);
    case Wait::kAsync:
      return "for its asynchronous operations";
    case Wait::kResource:
      return "for tensor memory or registers";
  }
  return {};
}

void Cluster::raise_deadlock() {
  std::string text = "deadlock: no warp can go on";
  Fault fault;
  fault.kind = "deadlock";
  unsigned listed = 0;
  for (const Warp& w : warps) {
    for (std::uint32_t i = 0; i < w.group_count; ++i) {
      const Group& g = w.groups[i];
      if (listed == 0) locate(fault, w, g.pc);
      if (++listed > 24) continue;
      Fault at;
      locate(at, w, g.pc);
      text += "\n  CTA (" + std::to_string(w.cta->index[0]) + ", " + std::to_string(w.cta->index[1]) + ", " +
              std::to_string(w.cta->index[2]) + ") warp " + std::to_string(w.index) + " lanes " +
              hex(g.mask) + " waits " + describe_wait(w, g) + " at PTX line " + std::to_string(at.ptx_line) +
              (at.source_file.empty() ? "" : ", " + at.source_file + ":" + std::to_string(at.source_line));
    }
  }
  if (listed > 24) text += "\n  and " + std::to_string(listed - 24) + " more";
  // A session that comes here again does not tell the sanitizer what it knows already.
  const Sanitizer* const told = launch->config.sanitizer.get();
  const BarrierSanitizer* const history = told == nullptr ? nullptr : told->barriers();
  fault.cycle = find_deadlock(*this, history);
  if (!fault.cycle.empty()) text += "\nwho waits for whom:" + describe(fault.cycle);
  fault.message = text;
  throw LaunchFault(std::move(fault));
}

}  // namespace sglab::emu
