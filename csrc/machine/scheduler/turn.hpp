#pragma once

#include "machine/engine/observer.hpp"
#include "machine/scheduler/scheduler.hpp"

// A warp's turn: the loop that everything which is emulated goes through. What differs between a plain run
// and a stepped one is the pace, known at compile time.
namespace sglab::emu {

// Up to the end of the turn.
struct WholeTurn {
  static constexpr bool kPauses = false;
  void begin(Warp&, const Inst*) {}
  bool goes_on(const Inst*) { return true; }
  void attempted(const Inst*, const Inst*) {}
};

namespace detail {

// How an instruction is executed: without observers to notify, or with them.
struct Unobserved {
  const Inst* operator()(Warp& w, const Inst* inst) const { return inst->fn[w.partial](w, inst); }
};
struct ObservedInPart {
  Observer& observer;
  Followed& followed;
  const Inst* operator()(Warp& w, const Inst* inst) const {
    const std::uint8_t how = followed.instructions[static_cast<std::size_t>(inst - w.code)];
    if ((how & Followed::kHeard) != 0 || followed.all) {
      observer.attempting(w, inst);
      const Inst* const next = inst->fn[w.partial](w, inst);
      observer.attempted(w, inst, next);
      return next;
    }
    const Inst* const next = inst->fn[w.partial](w, inst);
    if ((how & Followed::kCounted) != 0 && !w.retry) ++followed.count;
    return next;
  }
};
struct Observed {
  const std::vector<Observer*>& observers;
  const Inst* operator()(Warp& w, const Inst* inst) const {
    for (Observer* const o : observers) o->attempting(w, inst);
    const Inst* const next = inst->fn[w.partial](w, inst);
    for (Observer* const o : observers) o->attempted(w, inst, next);
    return next;
  }
};

inline void mark(const Warp& w, const Inst* begin, const Inst* end) {
  mark_visited(w.visited, static_cast<std::size_t>(begin - w.code), static_cast<std::size_t>(end - w.code));
}

}  // namespace detail

// Runs stretches of straight code. The quantum is only checked where control turns; kExact: at every attempt.
// A pace that pauses does so after a stretch; it may end one anywhere.
template <bool kExact, class Pace, class Execute>
void Scheduler::attempt(Pace& pace, Execute execute) {
  Turn& turn = state_.turn;
  Warp& w = *turn.warp;
  const Inst* const code = w.code;
  std::int64_t* const profile = w.cluster->profile;
  const std::uint64_t limit = turn.limit;  // kExact: counted down in `turn`
  std::uint64_t done = turn.done;
  const Inst* inst = turn.inst;
  for (;;) {
    const Inst* const first = inst;
    const Inst* next;
    pace.begin(w, first);
    if constexpr (kExact) detail::mark(w, first, first + 1);
    try {
      if constexpr (kExact) {
        next = execute(w, inst);
      } else {
        while ((next = execute(w, inst)) == inst + 1 && pace.goes_on(next)) {
          ++inst;
          if constexpr (Pace::kPauses) turn.inst = inst;
        }
      }
    } catch (const LaunchFault&) {
      detail::mark(w, first, inst + 1);
      throw;
    }
    const Inst* const end = w.retry ? inst : inst + 1;
    ++profile[first - code];
    --profile[end - code];
    detail::mark(w, first, end);
    pace.attempted(inst, end);
    const bool turns = kExact || !Pace::kPauses || next != inst + 1;
    done += static_cast<std::uint64_t>(end - first);
    if (next == nullptr) {
      w.retry = false;
      next = choose(w);
    }
    if constexpr (kExact) {
      w.executed += done;
      w.cluster->executed += done;
      done = 0;
      if (w.yield) turn.limit = 1;
      w.yield = false;
      --turn.limit;
    }
    const bool over = next == nullptr || (kExact ? turn.limit == 0 : turns && (done >= limit || w.yield));
    if (over || Pace::kPauses) {
      if (next != nullptr) w.current().pc = static_cast<std::uint32_t>(next - code);
      turn.inst = next;
      turn.done = done;
      if (over) end_warp_turn(next == nullptr);
      return;
    }
    inst = next;
  }
}

template <class Pace>
void Scheduler::attempt(Pace& pace) {
  const std::vector<Observer*>& observers = launch_.observers.of_instructions();
  const bool exact = state_.turn.forced || is_exact(launch_.config.policy);
  const auto execute = [&](auto how) { exact ? attempt<true>(pace, how) : attempt<false>(pace, how); };
  if (observers.empty()) return execute(detail::Unobserved{});
  Followed* const followed = observers.size() == 1 ? observers.front()->followed() : nullptr;
  if (followed != nullptr) return execute(detail::ObservedInPart{*observers.front(), *followed});
  execute(detail::Observed{observers});
}

template <class Pace>
void Scheduler::advance(Pace& pace) {
  if (state_.turn.warp != nullptr) return attempt(pace);
  if (state_.round.active != nullptr) return next_turn();
  next_cluster();
}

template <class Pace>
bool Scheduler::force(Warp& warp, Pace& pace) {
  end_turn();
  if (!begin(warp, 1, true)) return false;
  attempt(pace);
  return true;
}

}  // namespace sglab::emu
