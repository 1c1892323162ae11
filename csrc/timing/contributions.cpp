#include "timing/contributions.hpp"

#include <algorithm>
#include <bit>
#include <unordered_map>

namespace sglab::emu::timing {
namespace {

class Objects {
 public:
  explicit Objects(const Trace& trace) : t_(trace) {
    for (std::uint32_t row = 0; row < t_.phases.position.size(); ++row) {
      rows_[key(static_cast<std::uint32_t>(t_.phases.cta[row]), t_.phases.kind[row], t_.phases.object[row])]
          .push_back(row);
    }
  }

  // The first phase of a barrier that ends at `position` or later. An asynchronous signal at the position of
  // an arrival came before it.
  std::int64_t phase(std::uint32_t cta, std::uint8_t kind, std::uint32_t object, std::uint64_t position,
                     bool arrival) const {
    const auto found = rows_.find(key(cta, kind, object));
    if (found == rows_.end()) return kNoPhase;
    const std::vector<std::uint32_t>& rows = found->second;
    auto at = std::lower_bound(rows.begin(), rows.end(), position, [&](std::uint32_t row, std::uint64_t p) {
      return t_.phases.position[row] < p;
    });
    while (arrival && at != rows.end() && t_.phases.position[*at] == position && t_.phases.asynchronous[*at])
      ++at;
    return at == rows.end() ? kNoPhase : std::int64_t{*at};
  }

 private:
  // mbarriers are named by shared::cluster addresses, named barriers by their number in a CTA.
  std::uint64_t key(std::uint32_t cta, std::uint8_t kind, std::uint32_t object) const {
    const std::uint64_t owner = kind == kNamed ? cta : t_.cluster_of[cta];
    const std::uint32_t name = kind == kNamed || kind == kMbarrier ? object : 0;
    return owner << 34 | std::uint64_t{kind} << 32 | name;
  }

  const Trace& t_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> rows_;
};

// The CTA and the instruction of an event.
class Events {
 public:
  explicit Events(const Trace& trace) : t_(trace) {
    std::uint64_t at = 0;
    for (std::size_t run = 0; run < t_.runs.cta.size(); ++run) {
      begin_.push_back(at);
      at += std::uint64_t{t_.runs.length[run]} * t_.runs.times[run];
    }
  }
  std::uint32_t cta(std::uint64_t event) const { return t_.runs.cta[run(event)]; }
  std::uint32_t pc(std::uint64_t event) const {
    const std::size_t r = run(event);
    return t_.runs.shown[t_.runs.first[r] + (event - begin_[r]) % t_.runs.length[r]];
  }

 private:
  std::size_t run(std::uint64_t event) const {
    return static_cast<std::size_t>(std::upper_bound(begin_.begin(), begin_.end(), event) - begin_.begin()) -
           1;
  }
  const Trace& t_;
  std::vector<std::uint64_t> begin_;
};

}  // namespace

Contributions::Contributions(const Trace& t) : missing(t.phases.position.size()) {
  const Objects objects(t);
  const Events events(t);
  for (std::size_t row = 0; row < t.barriers.event.size(); ++row) {
    const std::uint64_t event = t.barriers.event[row];
    std::int64_t phase = kNoPhase;
    switch (t.costs[events.pc(event)].action) {
      case Action::kNamedWait:
        phase = passed_phase(t, row);
        break;
      case Action::kArrive:
      case Action::kCpAsyncArrive:
        phase = objects.phase(events.cta(event), t.barriers.kind[row], t.barriers.object[row], event, true);
        break;
      default:
        break;
    }
    of_barrier.push_back(phase);
    if (phase != kNoPhase) ++missing[static_cast<std::size_t>(phase)];
  }
  for (std::size_t row = 0; row < t.copies.event.size(); ++row) {
    copy_begin.push_back(static_cast<std::uint32_t>(copy_phases.size()));
    if (t.copies.mbarrier[row] < 0 || t.copies.done[row] < 0) continue;
    const auto object = static_cast<std::uint32_t>(t.copies.mbarrier[row]);
    const std::uint32_t cta = events.cta(t.copies.event[row]);
    std::uint32_t ranks = t.copies.multicast[row];
    if (ranks == 0) ranks = 1u << (object >> kRankShift);
    for (; ranks != 0; ranks &= ranks - 1) {
      const std::uint32_t rank = static_cast<std::uint32_t>(std::countr_zero(ranks));
      const std::uint32_t own = (object & ((1u << kRankShift) - 1)) | rank << kRankShift;
      const std::int64_t phase =
          objects.phase(cta, kMbarrier, own, static_cast<std::uint64_t>(t.copies.done[row]), false);
      if (phase == kNoPhase) continue;
      copy_phases.push_back(static_cast<std::uint32_t>(phase));
      ++missing[static_cast<std::size_t>(phase)];
    }
  }
  copy_begin.push_back(static_cast<std::uint32_t>(copy_phases.size()));
  for (std::uint32_t row = 0; row < t.phases.position.size(); ++row) {
    if (!t.phases.asynchronous[row]) continue;
    if (t.costs[events.pc(t.phases.event[row])].action != Action::kTcgen05Commit) continue;
    commits.push_back({t.phases.event[row], row});
    ++missing[row];
  }
  std::stable_sort(commits.begin(), commits.end(),
                   [](const Asynchronous& a, const Asynchronous& b) { return a.event < b.event; });
}

}  // namespace sglab::emu::timing
