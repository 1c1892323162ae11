#include <algorithm>
#include <bit>

#include "machine/engine/cluster.hpp"
#include "machine/engine/warp.hpp"
#include "machine/program/program.hpp"

namespace sglab::emu {
namespace {

constexpr std::uint32_t kStarved = 512;  // choices without a turn
constexpr std::uint32_t kHold = 64;

std::uint32_t depth_of(const Warp& w, const Group& g) {
  return g.frame == 0xffffffffu ? 0 : w.frames[g.frame].depth;
}

// Deeper calls first, then program order.
bool behind(const Warp& w, const Group& a, const Group& b) {
  const std::uint32_t da = depth_of(w, a), db = depth_of(w, b);
  if (da != db) return da > db;
  return w.program->order[a.pc] < w.program->order[b.pc];
}

void select(Warp& w, std::uint32_t group) {
  w.group = group;
  Group& g = w.groups[group];
  g.last_turn = ++w.turns;
  w.mask = w.group_mask = g.mask;
  w.partial = g.mask != w.live;
}

void remove(Warp& w, std::uint32_t group) {
  if (group == w.group) w.hold = 0;
  w.groups[group] = w.groups[--w.group_count];
  if (w.group == w.group_count) w.group = group;
}

// Lanes that have begun to wait there are elsewhere than those that have just come.
bool same_place(const Group& a, const Group& b) {
  return a.pc == b.pc && a.frame == b.frame && a.arrived == b.arrived &&
         (!a.arrived || (a.key == b.key && a.ticket == b.ticket));
}

// Lanes of ready groups at the current group's instruction join it.
void merge(Warp& w) {
  for (std::uint32_t i = 0; i < w.group_count; ++i) {
    if (i == w.group || w.groups[i].wait != Wait::kReady || !same_place(w.groups[i], w.current())) continue;
    w.current().mask |= w.groups[i].mask;
    remove(w, i);
    --i;
  }
}

const Inst* next_of_meeting(Warp& w) {
  std::uint32_t i = 0;
  while (!w.groups[i].arrived || w.meeting_of(w.groups[i].mask) == nullptr) ++i;
  select(w, i);
  return w.code + w.groups[i].pc;
}

}  // namespace

const Inst* choose(Warp& w) {
  if (w.group_count == 0) return nullptr;
  if (!w.meetings.empty()) [[unlikely]]
    return next_of_meeting(w);
  if (w.group_count == 1) {
    w.hurry = false;
    if (w.groups[0].wait != Wait::kReady) return nullptr;
    select(w, 0);
    return w.code + w.groups[0].pc;
  }
  if (w.hold > 0 && w.current().wait == Wait::kReady) {
    --w.hold;
    select(w, w.group);
    return w.code + w.current().pc;
  }
  std::uint32_t best = 32, starved = 32;
  bool best_blocked = false;
  for (std::uint32_t i = 0; i < w.group_count; ++i) {
    const Group& g = w.groups[i];
    const bool blocked = g.wait != Wait::kReady;
    // Lanes that wait for other lanes of this warp must not hold those up.
    if (blocked && (g.wait == Wait::kWarp || w.hurry)) continue;
    if (!blocked && w.turns - g.last_turn > kStarved && starved == 32) starved = i;
    if (best == 32 || behind(w, g, w.groups[best])) best = i, best_blocked = blocked;
  }
  if (starved != 32) {
    best = starved;
    best_blocked = false;
    w.hold = kHold;
  }
  if (best == 32 || best_blocked) return nullptr;
  w.group = best;
  merge(w);
  select(w, w.group);
  return w.code + w.current().pc;
}

bool runnable(const Warp& w) {
  for (std::uint32_t i = 0; i < w.group_count; ++i) {
    if (w.groups[i].wait == Wait::kReady) return true;
  }
  return false;
}

const Inst* block(Warp& w, const Inst* inst, Wait wait, std::uint64_t key) {
  Group& g = w.current();
  g.pc = static_cast<std::uint32_t>(inst - w.code);
  w.retry = true;
  const std::uint32_t lanes = w.mask;
  if (lanes != g.mask) {
    // Only the guarded lanes wait; the others continue after the instruction.
    Group rest = g;
    rest.mask = g.mask & ~lanes;
    rest.pc = g.pc + 1;
    g.mask = lanes;
    w.groups[w.group_count++] = rest;
  }
  Group& waiting = w.current();
  waiting.wait = wait;
  waiting.key = key;
  return nullptr;
}

const Inst* diverge(Warp& w, const Inst* inst, std::uint32_t taken, std::uint32_t target) {
  Group& g = w.current();
  Group jumping = g;
  jumping.mask = taken;
  jumping.pc = target;
  g.mask &= ~taken;
  g.pc = static_cast<std::uint32_t>(inst - w.code) + 1;
  w.groups[w.group_count++] = jumping;
  return choose(w);
}

const Inst* meet(Warp& w, std::uint32_t pc) {
  w.current().pc = pc;
  return choose(w);
}

const Inst* leave(Warp& w, const Inst* inst, std::uint32_t lanes) {
  w.live &= ~lanes;
  Group& g = w.current();
  for (std::uint32_t f = g.frame; f != 0xffffffffu; f = w.frames[f].caller) w.frames[f].mask &= ~lanes;
  g.mask &= ~lanes;
  g.pc = static_cast<std::uint32_t>(inst - w.code) + 1;
  if (g.mask == 0) remove(w, w.group);
  lanes_left(w);
  return choose(w);
}

void gather_waiting(Warp& w, const Inst* inst) {
  const auto pc = static_cast<std::uint32_t>(inst - w.code);
  for (std::uint32_t i = 0; i < w.group_count; ++i) {
    if (i == w.group || w.groups[i].wait != Wait::kWarp || w.groups[i].pc != pc) continue;
    if (w.groups[i].frame != w.current().frame) continue;
    w.mask |= w.groups[i].mask;
    w.current().mask |= w.groups[i].mask;
    remove(w, i);
    --i;
  }
  w.group_mask = w.current().mask;
  w.partial = w.group_mask != w.live;
}

bool gather(Warp& w, const Inst* inst, std::uint32_t members) {
  const std::uint32_t wanted = members & w.live;
  if ((wanted & ~w.mask) == 0) return true;
  const auto pc = static_cast<std::uint32_t>(inst - w.code);
  std::uint32_t there = w.mask;
  for (std::uint32_t i = 0; i < w.group_count; ++i) {
    if (i != w.group && w.groups[i].wait == Wait::kWarp && w.groups[i].pc == pc) there |= w.groups[i].mask;
  }
  if ((wanted & ~there) != 0) return false;
  gather_waiting(w, inst);
  return true;
}

const Inst* block_for_lanes(Warp& w, const Inst* inst, std::uint32_t members) {
  return block(w, inst, Wait::kWarp, members);
}

void wake(Warp& w, Wait wait, std::uint64_t key) {
  bool woken = false;
  for (std::uint32_t i = 0; i < w.group_count; ++i) {
    Group& g = w.groups[i];
    if (g.wait != wait || g.key != key) continue;
    g.wait = Wait::kReady;
    woken = true;
  }
  if (woken) set_runnable(w);
}

}  // namespace sglab::emu
