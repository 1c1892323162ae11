#include "timing/clock.hpp"

#include <algorithm>
#include <numeric>

namespace sglab::emu::timing {
Clock::Clock(const Trace& trace, const Machine& machine)
    : t_(trace),
      m_(machine),
      contributions_(trace),
      memory_(trace, machine),
      mention_begin_(trace.costs.size() + 1),
      scheduler_(trace, mention_begin_, machine.l2_latency),
      phases_(trace.phases.position.size()),
      sms_(machine.sms) {
  for (std::size_t i = 0; i < phases_.size(); ++i) phases_[i].missing = contributions_.missing[i];
  sort_runs();
  find_leaders();
  lay_out_code();
  for (const Mention& mention : t_.mentions) ++mention_begin_[mention.pc + 1];
  std::partial_sum(mention_begin_.begin(), mention_begin_.end(), mention_begin_.begin());
}

// Runs by warp, in the order of execution.
void Clock::sort_runs() {
  const auto runs = static_cast<std::uint32_t>(t_.runs.cta.size());
  const std::size_t warps = t_.cluster_of.size() * t_.warps_per_cta;
  std::uint64_t events = 0;
  warp_begin_.assign(warps + 1, 0);
  const auto index = [&](std::uint32_t run) {
    return std::size_t{t_.runs.cta[run]} * t_.warps_per_cta + t_.runs.warp[run];
  };
  for (std::uint32_t run = 0; run < runs; ++run) {
    run_begin_.push_back(events);
    events += std::uint64_t{t_.runs.length[run]} * t_.runs.times[run];
    ++warp_begin_[index(run) + 1];
  }
  std::partial_sum(warp_begin_.begin(), warp_begin_.end(), warp_begin_.begin());
  std::vector<std::uint32_t> at(warp_begin_.begin(), warp_begin_.end() - 1);
  order_.resize(runs);
  for (std::uint32_t run = 0; run < runs; ++run) order_[at[index(run)]++] = run;
  out_.issue.resize(events);
  out_.end.resize(events);
  out_.stall.resize(events);
  out_.stalled.resize(events);
  out_.copy_start.resize(t_.copies.event.size());
  out_.copy_end.resize(t_.copies.event.size());
  out_.tcgen05_start.resize(t_.tcgen05.event.size());
  out_.tcgen05_end.resize(t_.tcgen05.event.size());
  warps_.resize(warps);
}

Times Clock::run() {
  place_first();
  while (true) {
    while (!queue_.empty()) {
      const std::uint32_t warp = queue_.top().warp;
      queue_.pop();
      play(warp);
    }
    if (unfinished_ == 0 && next_cluster_ == clusters_) break;
    if (!unstick()) break;
  }
  for (const Phase& phase : phases_) out_.phase.push_back(phase.time);
  for (const double end : out_.cta_end) out_.total = std::max(out_.total, end);
  for (const double end : out_.copy_end) out_.total = std::max(out_.total, end);
  out_.total = std::max(out_.total, memory_.last_write());
  out_.total += m_.launch_all * std::min(1.0, static_cast<double>(out_.cta_end.size()) / m_.sms);
  out_.bytes_l2 = memory_.bytes_l2();
  out_.bytes_hbm = memory_.bytes_hbm();
  return std::move(out_);
}

// Clusters start in order, as many as are resident at once: one on each group of SMs in turn, or where the
// trace says.
void Clock::place_first() {
  const std::size_t ctas = t_.cluster_of.size();
  clusters_ = static_cast<std::uint32_t>(ctas / t_.cluster_size);
  members_.resize(ctas);
  for (std::uint32_t cta = 0; cta < ctas; ++cta)
    members_[std::size_t{t_.cluster_of[cta]} * t_.cluster_size + t_.rank_of[cta]] = cta;
  slot_of_.resize(clusters_);
  cta_left_.assign(ctas, 0);
  cluster_left_.assign(clusters_, t_.cluster_size);
  out_.cta_start.resize(ctas);
  out_.cta_end.resize(ctas);
  out_.cta_sm.resize(ctas);
  const double first = m_.launch + (m_.warm ? 0 : m_.cold_start);
  next_start_ = first;
  const std::uint32_t groups = std::max(m_.sms / t_.cluster_size, 1u);
  const std::uint32_t resident = std::min(clusters_, groups * t_.ctas_per_sm);
  while (next_cluster_ < resident) {
    const bool said = next_cluster_ < t_.placement.size();
    place(next_cluster_, (said ? t_.placement[next_cluster_] : next_cluster_) % groups, first);
  }
}

void Clock::place(std::uint32_t cluster, std::uint32_t slot, double time) {
  ++next_cluster_;
  slot_of_[cluster] = slot;
  std::vector<std::uint32_t> empty;
  for (std::uint32_t rank = 0; rank < t_.cluster_size; ++rank) {
    const std::uint32_t cta = members_[std::size_t{cluster} * t_.cluster_size + rank];
    const std::uint32_t sm = (slot * t_.cluster_size + rank) % m_.sms;
    next_start_ = std::max(next_start_, time) + m_.cta_interval;
    const double start = next_start_ + m_.cta_start;
    out_.cta_sm[cta] = sm;
    out_.cta_start[cta] = out_.cta_end[cta] = start;
    cta_left_[cta] = t_.warps_per_cta;
    for (std::uint32_t i = 0; i < t_.warps_per_cta; ++i) {
      const std::uint32_t index = cta * t_.warps_per_cta + i;
      Warp& w = warps_[index];
      w.cta = cta;
      w.sm = sm;
      w.part = sms_[sm].warps++ % kParts;
      w.cursor.run = warp_begin_[index];
      w.last = warp_begin_[index + 1];
      w.next = start;
      if (free_registers_.empty()) {
        w.registers = static_cast<std::uint32_t>(ready_.size());
        ready_.resize(ready_.size() + t_.slots);
        producer_.resize(ready_.size());
      } else {
        w.registers = free_registers_.back();
        free_registers_.pop_back();
        std::fill_n(ready_.begin() + w.registers, t_.slots, 0.0);
      }
      ++unfinished_;
      if (!start_window(w)) {
        empty.push_back(index);
        continue;
      }
      find_key(w);
      queue_.push({w.key, index});
    }
  }
  for (const std::uint32_t warp : empty) finish(warp);
}

void Clock::finish(std::uint32_t warp) {
  Warp& w = warps_[warp];
  const std::uint32_t cta = w.cta, cluster = t_.cluster_of[cta];
  --unfinished_;
  free_registers_.push_back(w.registers);
  w.pcs = {};
  w.events = {};
  w.done = {};
  w.filled_by = {};
  out_.cta_end[cta] = std::max({out_.cta_end[cta], w.next, w.end});
  if (--cta_left_[cta] != 0 || --cluster_left_[cluster] != 0) return;
  if (next_cluster_ == clusters_) return;
  double time = 0;
  for (std::uint32_t rank = 0; rank < t_.cluster_size; ++rank)
    time = std::max(time, out_.cta_end[members_[std::size_t{cluster} * t_.cluster_size + rank]]);
  place(next_cluster_, slot_of_[cluster], time);
}

// Warps that wait for a CTA which found no place, or for what the log does not show. The order of execution
// was possible, so something can always continue.
bool Clock::unstick() {
  ++out_.forced;
  if (next_cluster_ < clusters_) {
    const std::uint32_t groups = std::max(m_.sms / t_.cluster_size, 1u);
    place(next_cluster_, next_cluster_ % groups, next_start_);
    return true;
  }
  for (std::uint32_t phase = 0; phase < phases_.size(); ++phase) {
    if (phases_[phase].parked.empty()) continue;
    phases_[phase].missing = 0;
    wake(phase);
    return true;
  }
  return false;
}

// The earliest time at which the next instruction can issue, and what it then waited for.
void Clock::find_key(Warp& w) {
  w.key = w.next;
  w.why = Stall::kNone;
  if (removed(w)) return;
  const double fetched = fetch(w);
  if (fetched > w.key) {
    w.key = fetched;
    w.why = Stall::kFetch;
  }
  const double later = t_.costs[w.pc].order & kBranch ? m_.predicate : 0;
  visit_sources(w, [&](double ready, Stall producer) {
    if (ready + later <= w.key) return;
    w.key = ready + later;
    w.why = producer;
  });
}

// Executes instructions of a warp until another one's turn comes first.
void Clock::play(std::uint32_t warp) {
  while (execute(warp)) {
    if (!step(warps_[warp])) return finish(warp);
    const Entry entry{warps_[warp].key, warp};
    if (queue_.empty() || queue_.top() > entry) continue;
    queue_.push(entry);
    return;
  }
}

void Clock::move_on(std::uint32_t warp) {
  if (!step(warps_[warp])) return finish(warp);
  queue_.push({warps_[warp].key, warp});
}

Times simulate(const Trace& trace, const Machine& machine) {
  return Clock(trace, machine).run();
}

}  // namespace sglab::emu::timing
