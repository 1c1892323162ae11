#include "machine/scheduler/idle.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

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

namespace {

// Warps of one CTA that wait alike.
struct Waiters {
  const Cta* cta;
  std::vector<std::uint32_t> warps;
  std::string lanes, what;
};

void add_waiter(std::vector<Waiters>& all, const Warp& w, const Group& g) {
  Fault at;
  locate(at, w, g.pc);
  std::string what = describe_wait(w, g) + " at PTX line " + std::to_string(at.ptx_line);
  if (!at.source_file.empty()) what += ", " + at.source_file + ":" + std::to_string(at.source_line);
  const std::string lanes = hex(g.mask);
  for (Waiters& each : all) {
    if (each.cta == w.cta && each.lanes == lanes && each.what == what) return each.warps.push_back(w.index);
  }
  all.push_back({w.cta, {w.index}, lanes, std::move(what)});
}

// "warp 3", "warps 1 to 7" or "warps 0, 2, 3".
std::string numbered(const std::vector<std::uint32_t>& warps) {
  if (warps.size() == 1) return "warp " + std::to_string(warps.front());
  if (warps.size() > 2 && warps.back() - warps.front() + 1 == warps.size())
    return "warps " + std::to_string(warps.front()) + " to " + std::to_string(warps.back());
  std::string text;
  for (const std::uint32_t each : warps) text += (text.empty() ? "warps " : ", ") + std::to_string(each);
  return text;
}

}  // namespace

void raise_deadlock(const Cluster& cluster) {
  constexpr std::size_t kMostListed = 24;
  std::string text = "deadlock: no warp can continue";
  Fault fault;
  fault.kind = "deadlock";
  std::vector<Waiters> all;
  for (const Warp& w : cluster.warps) {
    for (std::uint32_t i = 0; i < w.group_count; ++i) {
      if (all.empty()) locate(fault, w, w.groups[i].pc);
      add_waiter(all, w, w.groups[i]);
    }
  }
  for (std::size_t i = 0; i < std::min(all.size(), kMostListed); ++i) {
    const auto& [cta, warps, lanes, what] = all[i];
    text += "\n  CTA (" + std::to_string(cta->index[0]) + ", " + std::to_string(cta->index[1]) + ", " +
            std::to_string(cta->index[2]) + ") " + numbered(warps) + " lanes " + lanes +
            (warps.size() == 1 ? " waits " : " wait ") + what;
  }
  if (all.size() > kMostListed) text += "\n  and " + std::to_string(all.size() - kMostListed) + " more";
  fault.message = text;
  if (const Explainer* const explainer = cluster.launch->config.explainer.get())
    explainer->deadlock(cluster, fault);
  throw LaunchFault(std::move(fault));
}

}  // namespace sglab::emu
