#include "timing/schedule.hpp"

#include <algorithm>

namespace sglab::emu::timing {
namespace {

// Loads and stores of a space, as Order has them.
struct Space {
  std::uint8_t reads, writes;
};
constexpr Space kSpaces[] = {{kReadsShared, kWritesShared}, {kReadsGlobal, kWritesGlobal}};

// Which position of the trip before fills a register; -1: none.
std::int64_t carried(const Schedule& s, std::int32_t slot) {
  for (const Schedule::Result& result : s.results) {
    if (result.slot == static_cast<std::uint32_t>(slot)) return result.position;
  }
  return -1;
}

std::uint64_t name_of(std::span<const std::uint32_t> pcs) {
  return std::uint64_t{pcs.front()} << 32 | pcs.size();
}

}  // namespace

Scheduler::Scheduler(const Trace& trace, std::span<const std::uint32_t> mention_begin, double load_latency)
    : t_(trace), mention_begin_(mention_begin), load_latency_(load_latency), filled_by_(trace.slots, -1) {}

const Schedule& Scheduler::of(std::span<const std::uint32_t> pcs) {
  const auto [at, is_new] = made_.try_emplace(name_of(pcs));
  Schedule& s = at->second;
  if (is_new) {
    s.pcs.assign(pcs.begin(), pcs.end());
    find_sources(s);
    arrange(s);
  }
  return s;
}

void Scheduler::find_sources(Schedule& s) {
  const auto mentions_of = [&](std::uint32_t pc) {
    return std::span(t_.mentions).subspan(mention_begin_[pc], mention_begin_[pc + 1] - mention_begin_[pc]);
  };
  for (std::size_t i = 0; i < s.pcs.size(); ++i) {
    s.begin.push_back(static_cast<std::uint32_t>(s.sources.size()));
    for (const Mention& mention : mentions_of(s.pcs[i])) {
      if (mention.definition) continue;
      const std::int32_t by = filled_by_[mention.slot];
      s.sources.push_back(by >= 0 ? by : ~std::int32_t{mention.slot});
    }
    for (const Mention& mention : mentions_of(s.pcs[i])) {
      if (mention.definition) filled_by_[mention.slot] = static_cast<std::int32_t>(i);
    }
  }
  s.begin.push_back(static_cast<std::uint32_t>(s.sources.size()));
  for (const std::uint32_t pc : s.pcs) {
    for (const Mention& mention : mentions_of(pc)) {
      std::int32_t& by = filled_by_[mention.slot];
      if (!mention.definition || by < 0) continue;
      s.results.push_back({mention.slot, static_cast<std::uint16_t>(by)});
      by = -1;
    }
  }
}

double Scheduler::latency(std::uint32_t pc) const {
  const Cost& cost = t_.costs[pc];
  return cost.action == Action::kGlobal ? load_latency_ : cost.latency;
}

std::vector<Scheduler::Edge> Scheduler::edges(const Schedule& s) const {
  std::vector<Edge> all;
  std::vector<std::uint16_t> loads[std::size(kSpaces)];
  std::int32_t store[std::size(kSpaces)] = {-1, -1};
  for (std::uint16_t i = 0; i < s.pcs.size(); ++i) {
    for (std::uint32_t at = s.begin[i]; at < s.begin[i + 1]; ++at) {
      if (s.sources[at] < 0) continue;
      const auto from = static_cast<std::uint16_t>(s.sources[at]);
      all.push_back({from, i, latency(s.pcs[from])});
    }
    const std::uint8_t order = t_.costs[s.pcs[i]].order;
    for (std::size_t k = 0; k < std::size(kSpaces); ++k) {
      if (!(order & (kSpaces[k].reads | kSpaces[k].writes))) continue;
      if (store[k] >= 0) all.push_back({static_cast<std::uint16_t>(store[k]), i, 1});
      if (order & kSpaces[k].writes) {
        for (const std::uint16_t load : loads[k]) all.push_back({load, i, 1});
        loads[k].clear();
        store[k] = i;
      } else {
        loads[k].push_back(i);
      }
    }
  }
  return all;
}

void Scheduler::arrange(Schedule& s) const {
  const std::size_t count = s.pcs.size();
  const std::vector<Edge> all = edges(s);  // in the order of `to`
  std::vector<double> ready(count);
  std::vector<std::uint32_t> missing(count),
      loads(count);  // loads: of global memory, on the longest way from here
  std::vector<std::vector<Edge>> successors(count);
  const auto is_load = [&](std::size_t i) { return t_.costs[s.pcs[i]].order & kReadsGlobal ? 1u : 0u; };
  for (std::uint16_t i = 0; i < count; ++i) loads[i] = is_load(i);
  for (auto edge = all.rbegin(); edge != all.rend(); ++edge)
    loads[edge->from] = std::max(loads[edge->from], is_load(edge->from) + loads[edge->to]);
  for (const Edge& edge : all) {
    ++missing[edge.to];
    successors[edge.from].push_back(edge);
  }
  std::vector<std::uint16_t> open;
  for (std::uint16_t i = 0; i < count; ++i)
    if (missing[i] == 0) open.push_back(i);
  double now = 0;
  while (!open.empty()) {
    const bool branches_last = s.order.size() + 1 < count;
    const auto worse = [&](std::uint16_t a, std::uint16_t b) {  // a issues after b
      if (branches_last && (a + 1u == count || b + 1u == count)) return a + 1u == count;
      const double start_a = std::max(ready[a], now), start_b = std::max(ready[b], now);
      if (start_a != start_b) return start_a > start_b;
      return loads[a] != loads[b] ? loads[a] < loads[b] : a > b;
    };
    const auto best = std::max_element(open.begin(), open.end(), worse);
    const std::uint16_t i = *best;
    open.erase(best);
    now = std::max(now, ready[i]);
    s.order.push_back(i);
    for (const Edge& edge : successors[i]) {
      ready[edge.to] = std::max(ready[edge.to], now + edge.delay);
      if (--missing[edge.to] == 0) open.push_back(edge.to);
    }
    now += t_.costs[s.pcs[i]].slots;
  }
}

bool Scheduler::counted(std::span<const std::uint32_t> body) {
  const auto [at, is_new] = counted_.try_emplace(name_of(body), true);
  if (!is_new) return at->second;
  Schedule s;
  s.pcs.assign(body.begin(), body.end());
  find_sources(s);
  const auto refuse = [&known = at->second] { return known = false; };
  for (const std::uint32_t pc : body) {
    if (t_.costs[pc].order & kNoUnroll) return refuse();
  }
  std::vector<bool> decides(body.size());
  std::vector<std::size_t> open{body.size() - 1};
  decides.back() = true;
  while (!open.empty()) {
    const std::size_t i = open.back();
    open.pop_back();
    const Action action = t_.costs[body[i]].action;
    if (action != Action::kPlain && action != Action::kMove) return refuse();
    std::int64_t from = -1;  // what the loop itself makes of what decides: one thing, or it does not count
    for (std::uint32_t k = s.begin[i]; k < s.begin[i + 1]; ++k) {
      const std::int64_t source = s.sources[k] >= 0 ? s.sources[k] : carried(s, ~s.sources[k]);
      if (source < 0) continue;
      if (from >= 0) return refuse();
      from = source;
    }
    if (from < 0 || decides[static_cast<std::size_t>(from)]) continue;
    decides[static_cast<std::size_t>(from)] = true;
    open.push_back(static_cast<std::size_t>(from));
  }
  return at->second;
}

}  // namespace sglab::emu::timing
