#include <algorithm>

#include "timing/clock.hpp"

// Arrivals, phases and the warps that wait for them.
namespace sglab::emu::timing {

std::int64_t Clock::barrier_row(std::uint64_t event) const {
  const std::size_t row = first_row(t_.barriers.event, event);
  const bool found = row < t_.barriers.event.size() && t_.barriers.event[row] == event;
  return found ? static_cast<std::int64_t>(row) : -1;
}

void Clock::arrival(Warp& w, std::int64_t row, double time) {
  auto at = static_cast<std::size_t>(row);
  if (t_.barriers.kind[at] > kMbarrier) time += t_.costs[w.pc].latency;  // a cluster's releases memory first
  if (t_.barriers.kind[at] == kNamed) time = sms_[w.sm].barrier.serve(time, m_.barrier_arrive);
  for (const std::uint64_t event = t_.barriers.event[at];
       at < t_.barriers.event.size() && t_.barriers.event[at] == event; ++at) {
    const std::int64_t phase = contributions_.of_barrier[at];
    if (phase != kNoPhase) contribute(static_cast<std::uint32_t>(phase), time);
  }
}

// When a warp that waits for a phase continues.
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
    const Cost& cost = t_.costs[w.pc];
    const double issued = out_.issue[w.event];
    const double end = std::max(issued + cost.latency, released(w, phase));
    fill(w, end, Stall::kShared);
    end_event(w, cost, issued, end, true,
              t_.phases.kind[phase] == kMbarrier ? Stall::kMbarrier : Stall::kBarrier);
    move_on(warp);
  }
}

}  // namespace sglab::emu::timing
