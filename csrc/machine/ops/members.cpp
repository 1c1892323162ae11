#include "machine/ops/members.hpp"

#include <array>

#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"
#include "machine/engine/warning.hpp"

namespace sglab::emu {
namespace {

struct Set {
  std::uint32_t members, lanes;
};

struct Sets {
  std::array<Set, 32> all;
  unsigned count = 0;
};

Sets sets_of(const Warp& w, Ref ref) {
  Sets sets;
  for (std::uint32_t rest = w.mask; rest != 0;) {
    const std::uint32_t members = lanes32(w, ref)[std::countr_zero(rest)];
    const Set set{members, naming(w, ref, rest, members)};
    sets.all[sets.count++] = set;
    rest &= ~set.lanes;
  }
  return sets;
}

void check(const Warp& w, const Inst* i, const Set& set) {
  if (const std::uint32_t outside = set.lanes & ~set.members; outside != 0) {
    warn(w, i, outside, "lane_outside_its_member_mask",
         "lanes " + hex(outside) + " execute it and are not in the member mask " + hex(set.members) +
             " that they name: what they exchange is undefined");
  }
  if (const std::uint32_t others = set.members & w.mask & ~set.lanes; others != 0) {
    warn(w, i, set.lanes, "member_masks_disagree",
         "lanes " + hex(set.lanes) + " name the member mask " + hex(set.members) + ", but its lanes " +
             hex(others) + " name another: they exchange nothing");
  }
}

// The set leaves the current group and waits until all of its members have come.
void set_aside(Warp& w, const Inst* i, const Set& set) {
  Group waiting = w.current();
  waiting.pc = static_cast<std::uint32_t>(i - w.code);
  waiting.mask = set.lanes;
  waiting.wait = Wait::kWarp;
  waiting.key = set.members;
  w.groups[w.group_count++] = waiting;
  w.current().mask &= ~set.lanes;
  w.mask &= ~set.lanes;
}

}  // namespace

const Inst* exchange_by_sets(Warp& w, const Inst* i, Ref ref, const std::function<void(std::uint32_t)>& f) {
  gather_waiting(w, i);
  const std::uint32_t present = w.mask;
  const Sets sets = sets_of(w, ref);
  const auto complete = [&](const Set& set) { return (set.members & w.live & ~present) == 0; };
  for (unsigned k = 0; k < sets.count; ++k) {
    const Set& set = sets.all[k];
    if (!complete(set)) continue;
    check(w, i, set);
    f(set.lanes);
  }
  for (unsigned k = 0; k < sets.count; ++k) {
    const Set& set = sets.all[k];
    if (complete(set)) continue;
    if (w.mask == set.lanes) return block_for_lanes(w, i, set.members);
    set_aside(w, i, set);
  }
  w.group_mask = w.current().mask;
  w.partial = w.group_mask != w.live;
  return i + 1;
}

}  // namespace sglab::emu
