#include "observe/sanitize/races/strand.hpp"

#include "machine/engine/cluster.hpp"

namespace sglab::emu::races {
namespace {

ViewPtr both(const ViewPtr& a, const ViewPtr& b) {
  if (a == nullptr || a == b) return b;
  if (b == nullptr) return a;
  auto joined = make_pooled<View>(*a);
  joined->join(*b);
  joined->tensor.join(b->tensor);
  return joined;
}

}  // namespace

Threads::Threads(const Cluster& cluster) : cluster_(cluster.index), teams_(cluster.warps.size()) {
  for (const Warp& warp : cluster.warps) {
    Strand strand;
    strand.lanes = warp.live;
    strand.slot = new_slot();
    strand.view = make_pooled<View>();
    strand.view->seen.raise(strand.slot, strand.clock);
    teams_[warp.slot].strands.push_back(std::move(strand));
  }
}

void Threads::split(Team& team, std::uint32_t lanes) {
  for (std::size_t i = 0, count = team.strands.size(); i < count; ++i) {
    const std::uint32_t part = team.strands[i].lanes & lanes;
    if (part == 0 || part == team.strands[i].lanes) continue;
    Strand made = team.strands[i];
    made.lanes = part;
    made.view = make_pooled<View>(*made.view);
    if (made.accessed >= made.met) {
      // Lanes that leave know nothing of what the others have done since they all met.
      made.view->lanes.push_back({made.slot, made.clock, part, {}});
      made.view->seen.lower(made.slot, made.met - 1);
    }
    made.accessed = made.wgmma = 0;
    if (team.spare.empty()) {
      made.slot = new_slot();
      made.clock = 1;
    } else {
      made.slot = team.spare.back();
      made.clock = team.spare_clock.back() + 1;
      team.spare.pop_back();
      team.spare_clock.pop_back();
    }
    made.met = made.clock;
    made.published = false;
    made.view->seen.raise(made.slot, made.clock);
    team.strands[i].lanes &= ~part;
    team.strands[i].published = true;
    team.strands.push_back(std::move(made));
  }
}

void Threads::meet(const Warp& warp, std::uint32_t lanes) {
  Team& team = teams_[warp.slot];
  split(team, lanes);
  Strand* first = nullptr;
  for (std::size_t i = 0; i < team.strands.size(); ++i) {
    Strand& strand = team.strands[i];
    if ((strand.lanes & lanes) == 0) continue;
    if (first == nullptr) {
      first = &strand;
      continue;
    }
    change(*first).join(*strand.view);
    first->view->tensor.join(strand.view->tensor);
    first->lanes |= strand.lanes;
    for (unsigned k = 0; k < first->fences.size(); ++k)
      first->fences[k] = both(first->fences[k], strand.fences[k]);
    first->before_tensor = both(first->before_tensor, strand.before_tensor);
    first->before_init = both(first->before_init, strand.before_init);
    first->found.insert(first->found.end(), strand.found.begin(), strand.found.end());
    first->tensor_found.join(strand.tensor_found);
    team.spare.push_back(strand.slot);
    team.spare_clock.push_back(strand.clock);
    team.strands.erase(team.strands.begin() + static_cast<std::ptrdiff_t>(i--));
  }
  if (first == nullptr) return;
  first->published = true;
  tick(*first);
  first->met = first->clock;
}

View& Threads::change(Strand& strand) {
  if (strand.view.use_count() > 1) strand.view = make_pooled<View>(*strand.view);
  return *strand.view;
}

void Threads::tick(Strand& strand) {
  if (!strand.published) return;
  strand.published = false;
  change(strand).seen.raise(strand.slot, ++strand.clock);
}

const View* Threads::knowledge(std::uint32_t slot) const {
  for (const Team& team : teams_) {
    for (const Strand& strand : team.strands) {
      if (strand.slot == slot) return strand.view.get();
    }
  }
  return nullptr;
}

bool Threads::known_to(const Cta& cta, std::uint32_t slot, std::uint32_t clock, std::uint32_t lanes) const {
  for (const Warp& warp : cta.cluster->warps) {
    if (warp.cta != &cta) continue;
    for (const Strand& strand : teams_[warp.slot].strands) {
      if (strand.view->covers(slot, clock, lanes)) return true;
    }
  }
  return false;
}

ViewPtr Threads::publish(Strand& strand) {
  strand.published = true;
  return strand.view;
}

// The wgmma operations of a warpgroup's warps are one line.
std::uint64_t Threads::key(Line line, const Warp& warp, std::uint32_t lane) {
  const std::uint32_t slot = line == Line::kWgmma ? warp.slot - warp.index % 4 : warp.slot;
  return static_cast<std::uint64_t>(line) << 32 | slot << 8 | lane;
}

Channel& Threads::channel(Line line, const Warp& warp, std::uint32_t lane) {
  const auto [at, fresh] = channels_.try_emplace(key(line, warp, lane));
  if (fresh) {
    at->second.slot = new_slot();
    at->second.second_slot = new_slot();
  }
  return at->second;
}

Channel* Threads::find_channel(Line line, const Warp& warp, std::uint32_t lane) {
  const auto found = channels_.find(key(line, warp, lane));
  return found == channels_.end() ? nullptr : &found->second;
}

}  // namespace sglab::emu::races
