#include "machine/ops/members.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "machine/engine/cluster.hpp"
#include "machine/engine/fault.hpp"
#include "machine/engine/warning.hpp"
#include "machine/program/program.hpp"

namespace sglab::emu {
namespace {

enum class Standing { kTogether, kApart, kIncomplete };

struct Set {
  std::uint32_t members, lanes;
  Standing standing;
};

struct Sets {
  std::array<Set, 32> all;
  unsigned count = 0;
};

bool has_members(const Program& program, std::uint32_t pc) {
  const Act act = program.effects[pc].act;
  return act == Act::kWarpSync || act == Act::kWarpExchange;
}

bool waits_for(const Warp& w, const Group& g, std::uint32_t members) {
  return g.wait == Wait::kWarp && g.key == members && has_members(*w.program, g.pc);
}

Standing standing_of(const Warp& w, std::uint32_t members) {
  std::uint32_t elsewhere = 0;
  for (std::uint32_t k = 0; k < w.group_count; ++k) {
    if (k != w.group && waits_for(w, w.groups[k], members)) elsewhere |= w.groups[k].mask;
  }
  if ((members & w.live & ~(w.mask | elsewhere)) != 0) return Standing::kIncomplete;
  return elsewhere == 0 ? Standing::kTogether : Standing::kApart;
}

Sets sets_of(const Warp& w, Ref ref) {
  Sets sets;
  for (std::uint32_t rest = w.mask; rest != 0;) {
    const std::uint32_t members = lanes32(w, ref)[std::countr_zero(rest)];
    const Set set{members, naming(w, ref, rest, members), standing_of(w, members)};
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

// The same opcode and qualifiers; operands may differ.
bool same_operation(const Inst& a, const Inst& b) {
  return a.body == b.body && a.imm == b.imm;
}

// All members wait, at several instructions. Those at the same operation exchange. Lanes at different ones
// would wait for each other by the ISA's text, for ever; they go on, too.
void convene(Warp& w, const Inst* i, const Set& set) {
  const auto first = static_cast<std::ptrdiff_t>(w.meetings.size());
  for (std::uint32_t k = 0; k < w.group_count; ++k) {
    Group& g = w.groups[k];
    if (!waits_for(w, g, set.members)) continue;
    g.wait = Wait::kReady;
    g.arrived = true;
    auto meeting = std::find_if(w.meetings.begin() + first, w.meetings.end(),
                                [&](const Meeting& m) { return same_operation(w.code[m.pc], w.code[g.pc]); });
    if (meeting == w.meetings.end()) meeting = w.meetings.insert(meeting, Meeting{.pc = g.pc});
    meeting->all = meeting->left = meeting->all | g.mask;
  }
  const auto own = std::find_if(w.meetings.begin() + first, w.meetings.end(),
                                [&](const Meeting& m) { return (m.all & set.lanes) != 0; });
  for (auto other = w.meetings.begin() + first; other != w.meetings.end(); ++other) {
    if (other == own) continue;
    warn(w, i, set.lanes, "member_operations_differ",
         "lanes " + hex(own->all) + " execute it and lanes " + hex(other->all) + " " +
             std::string(opcode_of(*w.program, other->pc)) + ", all with the member mask " +
             hex(set.members) + ": they wait for each other and exchange nothing; PTX leaves it undefined");
  }
}

// The current group executes its part of a meeting. What lanes give is read before any of them writes.
const Inst* take_part(Warp& w, const Inst* i, const Exchange& exchange) {
  const auto meeting = std::find_if(w.meetings.begin(), w.meetings.end(),
                                    [&](const Meeting& m) { return (m.left & w.mask) != 0; });
  if (!meeting->taken) {
    exchange.take(w, i, 0xffffffffu, meeting->given);
    for (std::uint32_t k = 0; k < w.group_count; ++k) {
      const Group& g = w.groups[k];
      if (k != w.group && (g.mask & meeting->left) != 0)
        exchange.take(w, w.code + g.pc, g.mask, meeting->given);
    }
    meeting->taken = true;
  }
  Group& own = w.current();
  check(w, i, {static_cast<std::uint32_t>(own.key), w.mask, Standing::kApart});
  exchange.give(w, i, w.mask, meeting->all, meeting->given);
  own.arrived = false;
  meeting->left &= ~w.mask;
  if (meeting->left == 0) w.meetings.erase(meeting);
  if (w.meetings.empty()) return i + 1;
  own.pc = static_cast<std::uint32_t>(i - w.code) + 1;
  return nullptr;
}

}  // namespace

const Inst* exchange_by_sets(Warp& w, const Inst* i, Ref ref, const Exchange& exchange) {
  if (!w.meetings.empty()) return take_part(w, i, exchange);
  gather_waiting(w, i);
  const Sets sets = sets_of(w, ref);
  for (unsigned k = 0; k < sets.count; ++k) {
    const Set& set = sets.all[k];
    if (set.standing != Standing::kTogether) continue;
    check(w, i, set);
    Exchange::Given given{};
    exchange.take(w, i, 0xffffffffu, given);
    exchange.give(w, i, set.lanes, set.lanes, given);
  }
  const Inst* next = i + 1;
  for (unsigned k = 0; k < sets.count; ++k) {
    const Set& set = sets.all[k];
    if (set.standing == Standing::kTogether) continue;
    if (w.mask == set.lanes)
      next = block_for_lanes(w, i, set.members);
    else
      set_aside(w, i, set);
  }
  for (unsigned k = 0; k < sets.count; ++k) {
    if (sets.all[k].standing == Standing::kApart) convene(w, i, sets.all[k]);
  }
  if (next == nullptr) return next;
  w.group_mask = w.current().mask;
  w.partial = w.group_mask != w.live;
  if (w.meetings.empty()) return next;
  w.current().pc = static_cast<std::uint32_t>(i - w.code) + 1;
  return nullptr;
}

}  // namespace sglab::emu
