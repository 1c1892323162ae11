#include "machine/scheduler/stepper.hpp"

#include <algorithm>
#include <utility>

#include "machine/scheduler/policy.hpp"
#include "machine/scheduler/run_launch.hpp"
#include "machine/scheduler/turn.hpp"

namespace sglab::emu {
namespace {

LaunchConfig alone(LaunchConfig config) {
  config.threads = 1;
  return config;
}

std::unique_ptr<Launch> prepared(const Program& program, LaunchConfig config) {
  std::unique_ptr<Launch> launch = prepare_launch(program, alone(std::move(config)));
  launch->replayed = true;
  return launch;
}

Tally tally_of(const Launch& launch) {
  Tally tally;
  tally.reset(launch.program->code.size(), launch.config);
  return tally;
}

}  // namespace

// Attempts instructions up to where control turns, the lanes that run together change or the next one is
// `stop`; or just one.
struct Stepper::Stride {
  static constexpr bool kPauses = true;
  Stepper& stepper;
  const Inst* stop;
  bool single;

  void begin(Warp& w, const Inst* first) {
    stepper.last_ = {&w, first, first, w.group_mask, false, {}};
    if (single) detail::mark(w, first, first + 1);
  }
  bool goes_on(const Inst* next) const {
    const Last& last = stepper.last_;
    return !single && next != stop && last.warp->group_mask == last.mask;
  }
  void attempted(const Inst* inst, const Inst* end) { stepper.attempted(inst, end); }
};

Stepper::Stepper(const Program& program, LaunchConfig config)
    : launch_(prepared(program, std::move(config))),
      tally_(tally_of(*launch_)),
      scheduler_(*launch_, tally_),
      counted_(program.code.size() + 1) {
  for (std::size_t pc = 0; pc < program.code.size(); ++pc)
    counted_[pc + 1] = counted_[pc] + (program.places[pc].line != 0 ? 1 : 0);
  Stride stride{*this, nullptr, true};
  scheduler_.advance(stride);
}

Stepper::~Stepper() = default;

// Whether the launch's observer is notified of the tick that begins.
void Stepper::watch() {
  launch_->position = now_;
  Observer* const observer = launch_->config.observer.get();
  if (observer == nullptr) return;
  const bool report = !muted_ && ticks_ >= reported_;
  if (std::exchange(reporting_, report) != report)
    report ? launch_->observers.add(*observer) : launch_->observers.remove(*observer);
  if (!muted_) reported_ = std::max(reported_, ticks_ + 1);
}

void Stepper::report_again(const Saved& start) {
  Observer* const observer = launch_->config.observer.get();
  if (observer == nullptr) return;
  restore(start);
  reported_ = ticks_;
  observer->launched(*launch_);
  for (const Cluster* const cluster : clusters()) observer->cluster_started(*cluster);
}

void Stepper::follow_writers() {
  launch_->follows_writers = true;
  for (Cluster* const cluster : clusters()) cluster->follow_writes();
}

void Stepper::tick() {
  watch();
  ++ticks_;
  Stride stride{*this, nullptr, true};
  scheduler_.advance(stride);
}

void Stepper::stretch(const Inst* stop) {
  const Scheduler::Turn& turn = scheduler_.state().turn;
  if (turn.warp == nullptr || turn.forced || is_exact(launch_->config.policy)) return tick();
  watch();
  Stride stride{*this, stop, false};
  scheduler_.advance(stride);
  ticks_ += static_cast<std::uint64_t>(last_.inst - last_.first) + 1;
  if (!muted_) reported_ = std::max(reported_, ticks_);
}

bool Stepper::force(Warp& w) {
  watch();
  circles_.forget();
  ++ticks_;
  Stride stride{*this, nullptr, true};
  return scheduler_.force(w, stride);
}

// [last_.first, end) were executed; `inst` was the last attempt.
void Stepper::attempted(const Inst* inst, const Inst* end) {
  last_.inst = inst;
  last_.done = end != inst;
  const std::uint32_t executed = counted_to(end) - counted_to(last_.first);
  now_ += executed;
  if (executed != 0) {
    const Inst* ran = end - 1;
    while (counted_to(ran) == counted_to(ran + 1)) --ran;  // past instructions that no line of the PTX has
    ran_ = {last_.warp, ran, last_.mask};
  }
  note_wait(*last_.warp, end);
}

void Stepper::check_limit() {
  const std::uint64_t limit = launch_->config.max_instructions;
  if (limit == 0) return;
  const Scheduler::State& state = scheduler_.state();
  const bool circle = state.round.active == nullptr && circles_.closed(*launch_, state, now_);
  if (!circle && now_ <= limit) return;
  Fault at;
  if (last_.warp != nullptr)
    locate(at, *last_.warp, static_cast<std::uint32_t>(last_.inst - program().code.data()));
  const std::vector<Cluster*> running = clusters();
  raise_livelock(*launch_, now_, circle, tally_, {running.begin(), running.end()}, std::move(at));
}

Tally Stepper::tally() const {
  Tally all = tally_;
  for (const std::unique_ptr<Cluster>& cluster : scheduler_.owned()) add_barriers(all, *cluster);
  if (last_.warp != nullptr && last_.warp->cluster->live_warps != 0) all.look_ahead(*last_.warp->cluster);
  return all;
}

const Stepper::Waiting* Stepper::waiting(const Warp& w, const Inst* inst) const {
  for (const Waiting& one : waiting_) {
    if (one.warp == &w && one.inst == inst) return &one;
  }
  return nullptr;
}

// `end`: after the last instruction that was carried out.
void Stepper::note_wait(const Warp& w, const Inst* end) {
  const std::uint64_t bit = std::uint64_t{1} << (w.slot % 64);
  if (last_.done && (waits_ & bit) == 0) return;
  waits_ |= bit;
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (waiting_[i].warp != &w || waiting_[i].inst < last_.first || waiting_[i].inst >= end) continue;
    last_.waited = waiting_[i];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i--));
  }
  if (!last_.done && waiting(w, end) == nullptr)
    waiting_.push_back({&w, end, now_, w.groups[w.group].wait, w.groups[w.group].key});
  const auto same = [&](const Waiting& one) { return one.warp->slot % 64 == w.slot % 64; };
  if (std::none_of(waiting_.begin(), waiting_.end(), same)) waits_ &= ~bit;
}

std::vector<Cluster*> Stepper::clusters() const {
  const Scheduler::State& state = scheduler_.state();
  std::vector<Cluster*> all(state.running.begin(), state.running.end());
  if (state.round.active != nullptr) all.push_back(state.round.active);
  std::sort(all.begin(), all.end(), [](const Cluster* a, const Cluster* b) { return a->index < b->index; });
  return all;
}

Cluster* Stepper::cluster(std::uint64_t index) const {
  for (Cluster* const cluster : clusters()) {
    if (cluster->index == index) return cluster;
  }
  return nullptr;
}

}  // namespace sglab::emu
