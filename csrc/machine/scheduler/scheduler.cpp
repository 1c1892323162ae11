#include "machine/scheduler/scheduler.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "machine/async/engine.hpp"
#include "machine/scheduler/idle.hpp"
#include "machine/scheduler/policy.hpp"
#include "machine/scheduler/turn.hpp"

namespace sglab::emu {
namespace {

Cluster& first_of(const std::deque<Cluster*>& clusters) {
  return **std::min_element(clusters.begin(), clusters.end(),
                            [](const Cluster* a, const Cluster* b) { return a->index < b->index; });
}

}  // namespace

Scheduler::Scheduler(Launch& launch, Tally& tally) : launch_(launch), tally_(tally) {
  ++launch_.busy;
}

Scheduler::~Scheduler() {
  set_busy(false);
}

void Scheduler::restore(const State& state) {
  state_ = state;
  set_busy(state.round.alone == 0);
  idle_.clear();
  for (const std::unique_ptr<Cluster>& cluster : owned_) {
    const bool runs =
        cluster.get() == state.round.active ||
        std::find(state.running.begin(), state.running.end(), cluster.get()) != state.running.end();
    if (!runs) idle_.push_back(cluster.get());
  }
}

bool Scheduler::over() const {
  const std::uint64_t end = launch_.end();
  if (launch_.next.load(std::memory_order_relaxed) < end || state_.round.active != nullptr) return false;
  return std::none_of(state_.running.begin(), state_.running.end(),
                      [&](const Cluster* cluster) { return cluster->index < end; });
}

const Cluster* Scheduler::run_turn() {
  next_cluster();
  const Cluster* const cluster = state_.round.active;
  if (cluster == nullptr) return nullptr;
  const std::uint64_t before = cluster->executed;
  WholeTurn pace;
  while (state_.round.active != nullptr) advance(pace);
  launch_.executed += cluster->executed - before;
  return cluster;
}

const Cluster* Scheduler::at_fault() const {
  if (state_.round.active != nullptr) return state_.round.active;
  return state_.running.empty() ? nullptr : &first_of(state_.running);
}

void Scheduler::abandon() {
  Round& round = state_.round;
  if (round.active == nullptr) {
    if (state_.running.empty()) return;
    round.active = &first_of(state_.running);
    std::erase(state_.running, round.active);
  }
  idle_.push_back(std::exchange(round.active, nullptr));
  state_.turn = {};
  round.turns = std::min(round.turns, state_.running.size());
  round.rest.over();
  look_for_rest();
}

void Scheduler::drop_later() {
  Round& round = state_.round;
  std::erase_if(state_.running, [&](Cluster* cluster) {
    if (cluster->index < launch_.end()) return false;
    idle_.push_back(cluster);
    return true;
  });
  round.turns = std::min(round.turns, state_.running.size());
}

void Scheduler::next_cluster() {
  Round& round = state_.round;
  if (launch_.end() < launch_.cluster_total) drop_later();
  if (round.turns == 0) {
    if (state_.running.size() < launch_.resident) start_cluster();
    round.turns = state_.running.size();
  }
  if (state_.running.empty()) return;
  round.active = state_.running.front();
  state_.running.pop_front();
  --round.turns;
  round.until = round.active->executed + round.active->charged + kSlice;
  round.events = round.active->events;
}

void Scheduler::start_cluster() {
  if (launch_.next.load(std::memory_order_relaxed) >= launch_.end()) return;
  const std::uint64_t number = launch_.next.fetch_add(1);
  if (number >= launch_.end()) return;
  if (idle_.empty()) {
    owned_.push_back(std::make_unique<Cluster>());
    idle_.push_back(owned_.back().get());
  }
  Cluster& cluster = *idle_.back();
  state_.running.push_front(&cluster);
  idle_.pop_back();
  cluster.start(launch_, number, tally_);
  if (cluster.async != nullptr) cluster.async->reset();
  launch_.observers.notify([&](Observer& o) { o.cluster_started(cluster); });
  state_.round.rest.over();
}

void Scheduler::next_turn() {
  Round& round = state_.round;
  Cluster& cluster = *round.active;
  if (cluster.executed + cluster.charged >= round.until || cluster.index >= launch_.end()) {
    round.rest.over();
    return end_cluster_turn();
  }
  if (cluster.executed >= cluster.relief_at) relieve(cluster);
  if (is_exact(launch_.config.policy)) complete_early(cluster);
  const std::int64_t slot = pick(cluster);
  if (slot < 0) {
    if (resolve_idle(cluster)) return;
    if (!left_to_others(cluster)) raise_deadlock(cluster);
    round.rest.note(cluster.events != round.events);
    return end_cluster_turn();
  }
  Warp& chosen = cluster.warps[static_cast<std::size_t>(slot)];
  if (!begin(chosen, quantum(cluster), false)) turn_over(cluster, chosen);
}

bool Scheduler::begin(Warp& w, std::uint64_t limit, bool forced) {
  const Inst* const inst = choose(w);
  if (inst == nullptr) {
    stall(w);
    return false;
  }
  state_.turn = {&w, inst, 0, limit, forced};
  return true;
}

void Scheduler::stall(Warp& w) {
  w.cluster->runnable[w.slot / 64] &= ~(std::uint64_t{1} << (w.slot % 64));
}

void Scheduler::end_turn() {
  Turn& turn = state_.turn;
  if (turn.warp == nullptr) return;
  turn.warp->yield = false;
  turn.warp->executed += turn.done;
  turn.warp->cluster->executed += turn.done;
  turn = {};
}

void Scheduler::end_warp_turn(bool stalled) {
  Warp& w = *state_.turn.warp;
  Cluster& cluster = *w.cluster;
  const bool forced = state_.turn.forced;
  end_turn();
  if (stalled) stall(w);
  if (!forced) turn_over(cluster, w);
  if (cluster.live_warps == 0) retire(cluster);
}

void Scheduler::retire(Cluster& cluster) {
  if (cluster.async != nullptr) cluster.async->finish();
  launch_.observers.notify([&](Observer& o) { o.cluster_finished(cluster); });
  Round& round = state_.round;
  if (round.active == &cluster) {
    round.active = nullptr;
  } else {
    std::erase(state_.running, &cluster);
    round.turns = std::min(round.turns, state_.running.size());
  }
  round.rest.over();
  idle_.push_back(&cluster);
  look_for_rest();
}

void Scheduler::end_cluster_turn() {
  state_.running.push_back(std::exchange(state_.round.active, nullptr));
  look_for_rest();
}

// When no cluster of any worker can continue, that is a deadlock, reported for the first one.
void Scheduler::look_for_rest() {
  Round& round = state_.round;
  if (round.rest.turns() == 0) {
    round.alone = 0;
    set_busy(true);
  }
  if (state_.running.empty() || round.rest.turns() < Rest::kTurns * state_.running.size()) return;
  set_busy(false);
  if (launch_.busy != 0) {
    round.alone = 0;
    std::this_thread::yield();
  } else if (++round.alone > state_.running.size()) {  // all have looked since the last worker stopped
    raise_deadlock(first_of(state_.running));
  }
}

void Scheduler::set_busy(bool busy) {
  if (std::exchange(busy_, busy) == busy) return;
  busy ? ++launch_.busy : --launch_.busy;
}

void add_barriers(Tally& tally, const Cluster& cluster) {
  tally.add_named_barriers(cluster);
  for (const auto& engine : {cluster.async, cluster.spare_async}) {
    if (engine == nullptr) continue;
    for (const auto& [address, users] : engine->mbarrier_users()) tally.mbarriers[address].add(users);
  }
}

}  // namespace sglab::emu
