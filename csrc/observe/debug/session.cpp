#include "observe/debug/session.hpp"

#include <algorithm>
#include <utility>

#include "machine/float/environment.hpp"
#include "machine/scheduler/progress.hpp"
#include "machine/scheduler/run_launch.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint64_t kShortestInterval = 1024;  // instructions between checkpoints
constexpr std::size_t kBytesPerInstruction =
    1600;  // looked through in the time an instruction takes, roughly
constexpr std::size_t kMostCheckpoints = 64;
constexpr std::size_t kMostCheckpointBytes = std::size_t{256} << 20;
constexpr std::uint32_t kPollTicks = 64;  // between looks at the clock; a tick may take 10 ms

}  // namespace

Session::Session(std::shared_ptr<const Program> program, LaunchConfig config,
                 std::function<bool()> interrupted)
    : program_(std::move(program)),
      interrupted_(std::move(interrupted)),
      stepper_(*program_, std::move(config)),
      breakpoints_(*program_),
      stores_(*program_),
      poll_(&interrupted_) {
  stepper_.follow_writers();
  stepper_.attach(stores_);
  stepper_.attach(breakpoints_);
  interval_ = std::max<std::uint64_t>(kShortestInterval, stepper_.memory_bytes() / kBytesPerInstruction);
  keep();
}

void Session::keep() {
  const Stepper::Saved* const before = checkpoints_.empty() ? nullptr : checkpoints_.back().get();
  checkpoints_.push_back(stepper_.save(before));
  checkpoint_bytes_ += checkpoints_.back()->memory.fresh_bytes();
  if (checkpoints_.size() > kMostCheckpoints || checkpoint_bytes_ > kMostCheckpointBytes) thin();
}

// Every second checkpoint goes, and so does about half of their memory.
void Session::thin() {
  if (checkpoints_.size() < 3) return;
  std::vector<Checkpoint> kept;
  for (std::size_t i = 0; i < checkpoints_.size(); i += 2) kept.push_back(std::move(checkpoints_[i]));
  checkpoints_ = std::move(kept);
  checkpoint_bytes_ /= 2;
  interval_ *= 2;
}

void Session::go_back(const Checkpoint& checkpoint) {
  stepper_.restore(*checkpoint);
  fault_.reset();
  choice_ = static_cast<std::size_t>(
      std::lower_bound(choices_.begin(), choices_.end(), checkpoint->ticks,
                       [](const Choice& choice, std::uint64_t ticks) { return choice.ticks < ticks; }) -
      choices_.begin());
}

// Whether the next tick was chosen explicitly.
bool Session::chosen() const {
  return choice_ < choices_.size() && choices_[choice_].ticks == stepper_.ticks();
}

// Whose attempt the next tick is; nullptr: none's.
const Warp* Session::attempting() const {
  if (!chosen()) return stepper_.next() == nullptr ? nullptr : stepper_.turn_of();
  const Choice& choice = choices_[choice_];
  return &stepper_.cluster(choice.cluster)->warps[choice.slot];
}

// The breakpoint that the next attempt meets, or 0. `only`: of this one.
std::uint32_t Session::met(std::uint32_t only) {
  const Warp* const w = attempting();
  if (w == nullptr) return 0;
  if (!chosen()) return breakpoints_.before(stepper_, *w, *w, stepper_.next(), only);
  Warp trial = *w;
  const Inst* const inst = choose(trial);
  return inst == nullptr ? 0 : breakpoints_.before(stepper_, *w, trial, inst, only);
}

// One tick of the history as it is known, or as the scheduler continues.
void Session::advance() {
  const std::uint64_t before = stepper_.now();
  if (chosen()) {
    const Choice& choice = choices_[choice_++];
    stepper_.force(stepper_.cluster(choice.cluster)->warps[choice.slot]);
  } else {
    stepper_.tick();
  }
  if (stepper_.now() != before && stepper_.now() >= checkpoints_.back()->now + interval_) keep();
}

// The same; whether the warp has arrived by it.
bool Session::advance_to(const Arrival& arrival) {
  const Warp* const w = attempting();
  const std::uint64_t before = stepper_.now();
  const bool mine = w != nullptr && arrival.is_of(*w);
  const std::uint32_t from = mine ? arrival.line(*w) : 0;
  advance();
  if (!mine || stepper_.now() == before) return false;
  if (arrival.lines.empty()) return true;
  const Cta* const cta = find_cta(stepper_, arrival.cta);  // it may have ended by this
  const std::uint32_t line =
      cta == nullptr ? 0 : arrival.line(cta->cluster->warps[cta->first_warp + arrival.warp]);
  return line != 0 && line != from;
}

void Session::force(Warp& w) {
  const Choice choice{stepper_.ticks(), w.cluster->index, w.slot};
  if (choice_ >= choices_.size() || choices_[choice_] != choice) rest_of_history_is_other(choice);
  advance();
}

void Session::rest_of_history_is_other(const Choice& choice) {
  choices_.resize(choice_);
  choices_.push_back(choice);
  std::erase_if(checkpoints_, [&](const Checkpoint& c) { return c->ticks > choice.ticks; });
  if (stepper_.reported() <= choice.ticks) return;
  // The sanitizer knows the other history: it gets this one from the start.
  stepper_.report_again(*checkpoints_.front());
  choice_ = 0;
  while (stepper_.ticks() < choice.ticks) advance();
}

bool Session::interrupted() {
  if (++until_poll_ < kPollTicks) return false;
  until_poll_ = 0;
  executed_so_far = stepper_.now();
  return poll_();
}

Stop Session::step(std::uint64_t count) {
  Stop stop;
  const std::uint64_t until = stepper_.now() + count;
  guarded([&] {
    while (stepper_.now() < until) {
      if (stepper_.over()) return void(stop.reason = StopReason::kEnd);
      advance();
      stepper_.check_limit();
      if (interrupted()) return void(stop.reason = StopReason::kInterrupted);
    }
  });
  return stop;
}

Stop Session::step_warp(std::int64_t cta_index, std::uint32_t index, std::uint64_t count,
                        std::uint64_t most) {
  Stop stop;
  const std::uint64_t begin = stepper_.now();
  guarded([&] {
    while (count > 0) {
      if (stepper_.now() - begin >= most) return void(stop.reason = StopReason::kLimit);
      const Cta* const cta = find_cta(stepper_, cta_index);
      if (cta == nullptr) return void(stop.reason = StopReason::kExited);
      Warp& w = cta->cluster->warps[cta->first_warp + index];
      if (w.group_count == 0) return void(stop.reason = StopReason::kExited);
      const std::uint64_t before = stepper_.now();
      const bool can_run = cta->cluster->runnable[w.slot / 64] >> (w.slot % 64) & 1;
      if (can_run && stepper_.turn_of() != &w) {
        force(w);
      } else {
        advance();
      }
      if (stepper_.now() != before && stepper_.last().warp == &w) --count;
      stepper_.check_limit();
      if (interrupted()) return void(stop.reason = StopReason::kInterrupted);
    }
  });
  return stop;
}

Stop Session::follow(const Arrival& arrival, std::uint64_t most) {
  Stop stop;
  const std::uint64_t begin = stepper_.now();
  const auto exited = [&] {
    const Cta* const cta = find_cta(stepper_, arrival.cta);
    return cta == nullptr || cta->cluster->warps[cta->first_warp + arrival.warp].group_count == 0;
  };
  if (exited()) return {StopReason::kExited, 0};
  guarded([&] {
    breakpoints_.arm(stepper_);
    const std::uint64_t start = stepper_.ticks();
    while (!stepper_.over()) {
      if (stepper_.ticks() != start && (stop.breakpoint = met()) != 0)
        return void(stop.reason = StopReason::kBreakpoint);
      if (stepper_.now() - begin >= most) return void(stop.reason = StopReason::kLimit);
      const Warp* const w = attempting();
      const bool mine = w != nullptr && arrival.is_of(*w);
      const bool arrived = advance_to(arrival);
      stepper_.check_limit();
      if ((stop.breakpoint = breakpoints_.after(stepper_)) != 0)
        return void(stop.reason = StopReason::kBreakpoint);
      if (mine && exited()) return void(stop.reason = StopReason::kExited);
      if (arrived) return;
      if (interrupted()) return void(stop.reason = StopReason::kInterrupted);
    }
  });
  return stop;
}

Stop Session::run(std::uint64_t most) {
  Stop stop;
  const std::uint64_t begin = stepper_.now();
  guarded([&] {
    breakpoints_.arm(stepper_);
    const std::uint64_t start = stepper_.ticks();
    while (!stepper_.over()) {
      if (stepper_.ticks() != start && (stop.breakpoint = met()) != 0)
        return void(stop.reason = StopReason::kBreakpoint);
      if (stepper_.now() - begin >= most) return void(stop.reason = StopReason::kLimit);
      advance();
      stepper_.check_limit();
      if ((stop.breakpoint = breakpoints_.after(stepper_)) != 0)
        return void(stop.reason = StopReason::kBreakpoint);
      if (interrupted()) return void(stop.reason = StopReason::kInterrupted);
    }
    stop.reason = StopReason::kEnd;
  });
  return stop;
}

LaunchReport Session::record(EventLog& log, std::optional<Fault>& fault) {
  const std::uint64_t ticks = stepper_.ticks();
  go_back(checkpoints_.front());
  stepper_.mute(true);
  stepper_.detach(stores_);
  try {
    const PlainArithmetic plain;
    emu::record(stepper_, true, interrupted_, log);
  } catch (const LaunchFault& caught) {
    fault = caught.fault;
  }
  LaunchReport report = make_report(*program_, stepper_.executions());
  stepper_.mute(false);
  stepper_.attach(stores_);
  go_back(checkpoints_.front());
  try {
    return_to(ticks);
  } catch (const LaunchFault&) {
    // The session is at this fault.
  }
  if (fault && fault->kind == "interrupted") throw LaunchFault(std::move(*fault));
  return report;
}

// With one more observer, up to where `over` says or to the end.
template <class Over>
void Session::advance_with(Observer& observer, Over over) {
  stepper_.attach(observer);
  try {
    guarded([&] {
      while (!over() && !stepper_.over()) {
        advance();
        if (!interrupted()) continue;
        Fault fault;
        fault.kind = "interrupted";
        throw LaunchFault(std::move(fault));
      }
    });
  } catch (...) {
    stepper_.detach(observer);
    throw;
  }
  stepper_.detach(observer);
}

std::optional<FoundWriter> Session::writer_of(const MemoryPlace& place, EventOrder limit) {
  const std::vector<Checkpoint> known = checkpoints_;
  std::uint64_t end = limit.ticks;
  for (auto at = known.rbegin(); at != known.rend(); ++at) {
    if ((*at)->ticks >= end) continue;
    go_back(*at);
    WriterSearch search(stepper_, place, limit);
    advance_with(search, [&] { return stepper_.ticks() >= end; });
    if (search.found()) return search.found();
    end = (*at)->ticks;
  }
  return std::nullopt;
}

EventOrder Session::through(std::uint64_t position) {
  seek(position);
  step(1);
  return {stepper_.ticks(), kNoLimit};
}

std::optional<FoundWriter> Session::wgmma_at(const AccumulatorPlace& place, std::uint64_t position) {
  seek(position);
  WgmmaSearch search(stepper_, place, position);
  advance_with(search, [&] { return search.found().has_value(); });
  return search.found();
}

Stop Session::seek(std::uint64_t position) {
  const auto above =
      std::upper_bound(checkpoints_.begin(), checkpoints_.end(), position,
                       [](std::uint64_t at, const Checkpoint& checkpoint) { return at < checkpoint->now; });
  const Checkpoint nearest = *(above - 1);
  if (position < stepper_.now() || fault_ || nearest->ticks > stepper_.ticks()) go_back(nearest);
  return step(position - stepper_.now());
}

Stop Session::return_to(std::uint64_t ticks) {
  const auto above =
      std::upper_bound(checkpoints_.begin(), checkpoints_.end(), ticks,
                       [](std::uint64_t at, const Checkpoint& checkpoint) { return at < checkpoint->ticks; });
  const Checkpoint nearest = *(above - 1);
  if (ticks < stepper_.ticks() || fault_ || nearest->ticks > stepper_.ticks()) go_back(nearest);
  Stop stop;
  guarded([&] {
    while (stepper_.ticks() < ticks) {
      if (stepper_.over()) return void(stop.reason = StopReason::kEnd);
      advance();
      stepper_.check_limit();
      if (interrupted()) return void(stop.reason = StopReason::kInterrupted);
    }
  });
  return stop;
}

}  // namespace sglab::emu
