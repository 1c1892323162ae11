#include "observe/debug/stepper.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "machine/async/engine.hpp"
#include "observe/sanitize/sanitizer.hpp"

namespace sglab::emu {
namespace {

LaunchConfig alone(LaunchConfig config) {
  config.threads = 1;
  return config;
}

}  // namespace

Stepper::Stepper(const Program& program, LaunchConfig config)
    : launch_(prepare_launch(program, alone(std::move(config)))), counted_(program.code.size() + 1) {
  for (std::size_t pc = 0; pc < program.code.size(); ++pc)
    counted_[pc + 1] = counted_[pc] + (program.places[pc].line != 0 ? 1 : 0);
  launch_->replayed = true;
  tally_.reset(program.code.size(), launch_->config);
  next_cluster();
}

Stepper::~Stepper() = default;

bool Stepper::one_by_one() const {
  return launch_->config.policy == Policy::kRandom || launch_->config.policy == Policy::kAdversarial;
}

bool Stepper::over() const {
  return round_.active == nullptr && running_.empty() && next_ >= launch_->cluster_total;
}

// Whether the sanitizer is told of the tick that begins.
void Stepper::watch() {
  if (launch_->config.sanitizer == nullptr) return;
  launch_->sanitizer = nullptr;
  if (muted_) return;
  launch_->sanitizer = ticks_ >= told_ ? launch_->config.sanitizer.get() : nullptr;
  told_ = std::max(told_, ticks_ + 1);
}

void Stepper::tell_again(const Saved& start) {
  Sanitizer* const sanitizer = launch_->config.sanitizer.get();
  if (sanitizer == nullptr) return;
  restore(start);
  told_ = ticks_;
  sanitizer->launched(*launch_);
  for (const Cluster* const cluster : clusters()) sanitizer->cluster_started(*cluster);
}

const Inst* Stepper::execute(Warp& w, const Inst* inst) const {
  return launch_->sanitizer == nullptr ? inst->fn[w.partial](w, inst) : launch_->sanitizer->execute(w, inst);
}

void Stepper::follow_writers() {
  launch_->follows_writers = true;
  for (Cluster* const cluster : clusters()) cluster->follow_writes();
  stores_ = store_forms(program());
}

// Shared memory that an instruction is about to write.
void Stepper::mark_stores(const Warp& w, const Inst* inst) {
  AccessForm form = stores_[static_cast<std::size_t>(inst - w.code)];
  if (!form.writes || (form.space != Space::kShared && form.space != Space::kGeneric)) return;
  const LaneAccess access = shared_access(w, inst, form);
  for (std::uint32_t m = access.lanes; m != 0; m &= m - 1)
    w.cluster->mark_written(access.address[std::countr_zero(m)], form.bytes);
}

void Stepper::tick() {
  watch();
  ++ticks_;
  if (turn_.warp != nullptr) return attempt();
  if (round_.active == nullptr) return next_cluster();
  next_turn();
}

// A new cluster is only started when all running ones have had a turn and have not finished; see Worker.
void Stepper::next_cluster() {
  if (round_.turns == 0) {
    if (running_.size() < launch_->resident && next_ < launch_->cluster_total) {
      if (idle_.empty()) {
        owned_.push_back(std::make_unique<Cluster>());
        idle_.push_back(owned_.back().get());
      }
      running_.push_front(idle_.back());
      idle_.pop_back();
      running_.front()->start(*launch_, next_++, tally_);
      round_.rest.over();
    }
    round_.turns = running_.size();
  }
  if (running_.empty()) return;
  round_.active = running_.front();
  running_.pop_front();
  --round_.turns;
  round_.until = round_.active->executed + kSlice;
  round_.events = round_.active->events;
}

// One round of the loop in Cluster::run.
void Stepper::next_turn() {
  Cluster& cluster = *round_.active;
  if (cluster.executed >= round_.until) {
    round_.rest.over();
    running_.push_back(std::exchange(round_.active, nullptr));
    return;
  }
  if (cluster.executed >= cluster.relief_at) cluster.relieve();
  if (one_by_one()) cluster.complete_early();
  const std::int64_t slot = cluster.pick();
  if (slot < 0) {
    if (!cluster.resolve_idle()) rest(cluster);
    return;
  }
  Warp& chosen = cluster.warps[static_cast<std::size_t>(slot)];
  begin(chosen, cluster.quantum(), false);
  if (turn_.warp == nullptr) cluster.turn_over(chosen);
}

// As Worker::rest, with one worker.
void Stepper::rest(Cluster& cluster) {
  if (!cluster.left_to_others()) cluster.raise_deadlock();
  round_.rest.note(cluster.events != round_.events);
  running_.push_back(std::exchange(round_.active, nullptr));
  if (round_.rest.turns() < (Rest::kTurns + 1) * running_.size()) return;
  const auto before = [](const Cluster* a, const Cluster* b) { return a->index < b->index; };
  (*std::min_element(running_.begin(), running_.end(), before))->raise_deadlock();
}

void Stepper::begin(Warp& w, std::uint64_t limit, bool forced) {
  turn_ = {&w, choose(w), 0, limit, forced};
  if (turn_.inst != nullptr) return;
  stall(w);
  turn_ = {};
}

bool Stepper::force(Warp& w) {
  end_turn();
  watch();
  ++ticks_;
  begin(w, 1, true);
  if (turn_.warp == nullptr) return false;
  attempt();
  return true;
}

void Stepper::attempt() {
  Warp& w = *turn_.warp;
  const Inst* const at = turn_.inst;
  const bool forced = turn_.forced;
  launch_->position = now_;
  last_ = {&w, at, at, w.group_mask, false, {}};
  if (!stores_.empty()) mark_stores(w, at);
  mark_visited(w.visited, static_cast<std::size_t>(at - w.code), static_cast<std::size_t>(at - w.code) + 1);
  attempted(execute(w, at), forced);
}

void Stepper::stretch(const Inst* stop) {
  if (turn_.warp == nullptr || turn_.forced || one_by_one()) return tick();
  watch();
  Warp& w = *turn_.warp;
  last_ = {&w, turn_.inst, turn_.inst, w.group_mask, false, {}};
  const Inst*& inst = turn_.inst;
  const Inst* next;
  const auto goes_on = [&] { return next == inst + 1 && next != stop && w.group_mask == last_.mask; };
  try {
    if (launch_->sanitizer == nullptr) {
      while (next = inst->fn[w.partial](w, inst), goes_on()) ++inst;
    } else {
      while (next = execute(w, inst), goes_on()) ++inst;
    }
  } catch (const LaunchFault&) {
    mark_visited(w.visited, static_cast<std::size_t>(last_.first - w.code),
                 static_cast<std::size_t>(inst - w.code) + 1);
    throw;
  }
  last_.inst = inst;
  ticks_ += static_cast<std::uint64_t>(inst - last_.first) + 1;
  if (!muted_) told_ = std::max(told_, ticks_);
  attempted(next, false);
}

// The last of the instructions in last_ has returned `next`.
void Stepper::attempted(const Inst* next, bool forced) {
  Warp& w = *last_.warp;
  last_.done = !w.retry;
  const auto begin = last_.first - w.code, end = last_.inst - w.code + (last_.done ? 1 : 0);
  ++tally_.profile[static_cast<std::size_t>(begin)];
  --tally_.profile[static_cast<std::size_t>(end)];
  mark_visited(w.visited, static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  turn_.done += static_cast<std::uint64_t>(end - begin);
  now_ += counted_[static_cast<std::size_t>(end)] - counted_[static_cast<std::size_t>(begin)];
  note_wait(w, w.code + end);
  if (forced || one_by_one()) {
    attempted_alone(w, next);
  } else {
    attempted_in_run(w, next);
  }
  if (turn_.warp == nullptr && !forced) w.cluster->turn_over(w);
  if (w.cluster->live_warps == 0) retire(*w.cluster);
}

std::vector<std::uint64_t> Stepper::executions() const {
  std::vector<std::uint64_t> times(tally_.profile.size() - 1);
  std::int64_t running = 0;
  for (std::size_t pc = 0; pc < times.size(); ++pc)
    times[pc] = static_cast<std::uint64_t>(running += tally_.profile[pc]);
  return times;
}

Tally Stepper::tally() const {
  Tally all = tally_;
  for (const std::unique_ptr<Cluster>& cluster : owned_) all.add_barriers(*cluster);
  if (last_.warp != nullptr && last_.warp->cluster->live_warps != 0) all.look_ahead(*last_.warp->cluster);
  return all;
}

const Stepper::Waiting* Stepper::waiting(const Warp& w, const Inst* inst) const {
  for (const Waiting& one : waiting_) {
    if (one.warp == &w && one.inst == inst) return &one;
  }
  return nullptr;
}

// `end`: behind the last instruction that was carried out.
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

// As Cluster::step_warp goes on.
void Stepper::attempted_alone(Warp& w, const Inst* next) {
  if (last_.done) {
    ++w.cluster->executed;
    ++w.executed;
  }
  turn_.done = 0;
  if (next == nullptr) {
    w.retry = false;
    next = choose(w);
  }
  if (w.yield) turn_.limit = 1;
  w.yield = false;
  --turn_.limit;
  if (next == nullptr) {
    stall(w);
    turn_ = {};
    return;
  }
  w.current().pc = static_cast<std::uint32_t>(next - w.code);
  turn_.inst = next;
  if (turn_.limit == 0) turn_ = {};
}

// As Cluster::run_warp goes on: the quantum is only checked where control turns.
void Stepper::attempted_in_run(Warp& w, const Inst* next) {
  const bool straight = next == turn_.inst + 1;
  if (next == nullptr) {
    w.retry = false;
    next = choose(w);
  }
  if (next == nullptr) {
    end_turn();
    stall(w);
    return;
  }
  w.current().pc = static_cast<std::uint32_t>(next - w.code);
  turn_.inst = next;
  if (!straight && (turn_.done >= turn_.limit || w.yield)) end_turn();
}

void Stepper::end_turn() {
  if (turn_.warp == nullptr) return;
  turn_.warp->yield = false;
  turn_.warp->executed += turn_.done;
  turn_.warp->cluster->executed += turn_.done;
  turn_ = {};
}

void Stepper::stall(Warp& w) {
  w.cluster->runnable[w.slot / 64] &= ~(std::uint64_t{1} << (w.slot % 64));
}

void Stepper::retire(Cluster& cluster) {
  end_turn();
  if (cluster.async != nullptr) cluster.async->finish();
  if (launch_->sanitizer != nullptr) launch_->sanitizer->cluster_finished(cluster);
  if (round_.active == &cluster) {
    round_.active = nullptr;
  } else {
    std::erase(running_, &cluster);
    round_.turns = std::min(round_.turns, running_.size());
  }
  round_.rest.over();
  idle_.push_back(&cluster);
}

std::vector<Cluster*> Stepper::clusters() const {
  std::vector<Cluster*> all(running_.begin(), running_.end());
  if (round_.active != nullptr) all.push_back(round_.active);
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
