#include "machine/scheduler/idle.hpp"

#include <algorithm>
#include <utility>

#include "machine/async/engine.hpp"
#include "machine/engine/launch.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kIdleRounds = 16;  // time-outs without any event before a deadlock is called

bool part_siblings(Cluster& cluster) {
  bool any = false;
  for (Warp& w : cluster.warps) {
    if (w.hurry || w.group_count < 2 || is_runnable(w) || !emu::runnable(w)) continue;
    w.hurry = true;
    set_runnable(w);
    any = true;
  }
  return any;
}

bool time_out_waits(Cluster& cluster) {
  bool any = false;
  for (Warp& w : cluster.warps) {
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

}  // namespace

void relieve(Cluster& cluster) {
  cluster.relief_at = cluster.executed + kReliefPeriod;
  part_siblings(cluster);
  if (cluster.async != nullptr) cluster.async->complete_overdue();
  time_out_waits(cluster);
}

bool resolve_idle(Cluster& cluster) {
  if (part_siblings(cluster)) return true;
  // Asynchronous operations are completed as late as this, one at a time.
  if (cluster.async != nullptr && cluster.async->advance(0)) return true;
  if (cluster.events != cluster.idle_events) cluster.idle_rounds = 0;
  cluster.idle_events = cluster.events;
  return ++cluster.idle_rounds <= kIdleRounds && time_out_waits(cluster);
}

bool left_to_others(Cluster& cluster) {
  const auto gives_up = [](const Warp& w) {
    return std::any_of(w.groups.begin(), w.groups.begin() + w.group_count,
                       [](const Group& g) { return g.wait == Wait::kMbarrier; });
  };
  cluster.idle_rounds = 0;
  return cluster.launch->cluster_total > 1 &&
         std::any_of(cluster.warps.begin(), cluster.warps.end(), gives_up);
}

void raise_deadlock(const Cluster& cluster) {
  std::string text = "deadlock: no warp can continue";
  Fault fault;
  fault.kind = "deadlock";
  unsigned listed = 0;
  for (const Warp& w : cluster.warps) {
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
  fault.message = text;
  if (const Explainer* const explainer = cluster.launch->config.explainer.get())
    explainer->deadlock(cluster, fault);
  throw LaunchFault(std::move(fault));
}

}  // namespace sglab::emu
