#include "observe/sanitize/races/clock.hpp"

#include <algorithm>

namespace sglab::emu::races {
namespace {

void join_lanes(View& mine, const View& other) {
  const auto known = [&](const LaneHistory& one) { return mine.seen.covers(one.slot, one.time); };
  std::erase_if(mine.lanes, known);
  for (const LaneHistory& one : other.lanes) {
    if (known(one)) continue;
    const auto same = std::find_if(mine.lanes.begin(), mine.lanes.end(), [&](const LaneHistory& other_one) {
      return other_one.slot == one.slot && other_one.time == one.time && other_one.lanes == one.lanes;
    });
    if (same == mine.lanes.end()) {
      mine.lanes.push_back(one);
      continue;
    }
    for (unsigned i = 0; i < 2; ++i) same->fenced[i] = same->fenced[i] || one.fenced[i];
  }
}

void join_maps(View& mine, const View& other) {
  if (mine.maps == nullptr) {
    mine.maps = other.maps;
    return;
  }
  auto joined = std::make_shared<MapFences>(*mine.maps);
  joined->released.join(other.maps->released);
  for (const auto& [address, clock] : other.maps->acquired) joined->acquired[address].join(clock);
  mine.maps = std::move(joined);
}

void join_own(View& mine, const View& other) {
  mine.seen.join(other.seen);
  if (!mine.lanes.empty() || !other.lanes.empty()) join_lanes(mine, other);
  for (unsigned i = 0; i < 2; ++i) mine.fenced[i].join(other.fenced[i]);
  mine.initialised.join(other.initialised);
  mine.weak.join(other.weak);
  if (other.maps != nullptr && other.maps != mine.maps) join_maps(mine, other);
}

View& entry(Foreign& all, std::uint64_t cluster) {
  const auto at = std::lower_bound(all.clusters.begin(), all.clusters.end(), cluster,
                                   [](const auto& one, std::uint64_t number) { return one.first < number; });
  if (at != all.clusters.end() && at->first == cluster) return at->second;
  return all.clusters.insert(at, {cluster, View{}})->second;
}

// A copy to change, or the view's own if it is not shared.
std::shared_ptr<Foreign> changeable(const std::shared_ptr<const Foreign>& all) {
  if (all == nullptr) return std::make_shared<Foreign>();
  if (all.use_count() == 1) return std::const_pointer_cast<Foreign>(all);
  return std::make_shared<Foreign>(*all);
}

}  // namespace

void View::join(const View& other) {
  join_own(*this, other);
  if (other.foreign == nullptr || other.foreign == foreign) return;
  if (foreign == nullptr) {
    foreign = other.foreign;
    return;
  }
  const std::shared_ptr<Foreign> all = changeable(foreign);
  for (const auto& [cluster, view] : other.foreign->clusters) join_own(entry(*all, cluster), view);
  foreign = all;
}

void View::join_from(std::uint64_t mine, const View& other, std::uint64_t theirs) {
  if (mine == theirs) return join(other);
  const std::shared_ptr<Foreign> all = changeable(foreign);
  join_own(entry(*all, theirs), other);
  if (other.foreign != nullptr) {
    for (const auto& [cluster, view] : other.foreign->clusters) {
      if (cluster == mine) {
        join_own(*this, view);
      } else {
        join_own(entry(*all, cluster), view);
      }
    }
  }
  foreign = all;
}

void View::release_maps() {
  auto changed = maps == nullptr ? std::make_shared<MapFences>() : std::make_shared<MapFences>(*maps);
  changed->released.join(seen);
  maps = std::move(changed);
}

void View::acquire_map(std::uint64_t address) {
  const auto acquire = [address](View& view) {
    if (view.maps == nullptr) return;
    auto changed = std::make_shared<MapFences>(*view.maps);
    changed->acquired[address].join(changed->released);
    view.maps = std::move(changed);
  };
  acquire(*this);
  if (foreign == nullptr) return;
  const std::shared_ptr<Foreign> all = changeable(foreign);
  for (auto& [cluster, view] : all->clusters) acquire(view);
  foreign = all;
}

const View* View::of(std::uint64_t cluster) const {
  if (foreign == nullptr) return nullptr;
  const auto& all = foreign->clusters;
  const auto at = std::lower_bound(all.begin(), all.end(), cluster,
                                   [](const auto& one, std::uint64_t number) { return one.first < number; });
  return at != all.end() && at->first == cluster ? &at->second : nullptr;
}

}  // namespace sglab::emu::races
