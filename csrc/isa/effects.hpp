#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "isa/effect_kinds.hpp"
#include "isa/types.hpp"

// What an instruction does, as data. Every row of the instruction table states it, built by the functions of
// namespace `does`; what depends on the mnemonic's modifiers (space, order, scope, .read, width, …) is
// settled once, when the mnemonic is matched (resolve), and what depends on operands when the instruction is
// built (Builder::effects). Sanitizers, event logs, stepping, the timing model and Python read it; nothing
// parses mnemonics again.
namespace sglab::emu {

struct Effects {
  Act act = Act::kNothing;
  Event event = Event::kNone;
  TaintRule taint = TaintRule::kCompute;
  Cost cost = Cost::kAlu;
  Motion motion = Motion::kFree;
  Value value = Value::kOther;
  std::uint8_t releases = kReleasesNothing;
  MbarrierAt mbarrier = MbarrierAt::kNowhere;
  BarrierAct barrier = BarrierAct::kNone;
  bool exponential = false;        // 2 to the power of something, as every softmax takes
  bool sparse = false;             // of a matrix product: A has half of its elements
  bool weight_stationary = false;  // tcgen05.mma.ws

  // Memory. Of an access: what its lanes read or write by their addresses; kGeneric: the address says. Of an
  // asynchronous copy: its destination, and `source`. Of a proxy fence: what it is restricted to.
  Space space = Space::kReg;
  Space source = Space::kReg;
  bool reads = false, writes = false, atomic = false;
  bool returns = false;    // registers get what was there
  bool counts = false;     // the constant 1 is added to 32-bit integers
  std::uint8_t bytes = 0;  // per lane
  std::uint8_t rows = 0;   // of a matrix move: lanes that address one
  bool ordered = false;    // the mnemonic names an order
  Order order = Order::kWeak;
  bool scoped = false;  // the mnemonic names a scope
  Scope scope = Scope::kGpu;
  bool constant = false;   // .nc: nothing writes there
  bool cached = false;     // may stay in L1
  bool streaming = false;  // will not be used again

  FenceKind fence = FenceKind::kThread;
  GroupKind group = GroupKind::kBulk;
  bool read_only = false;                     // a wait for groups to have read their sources
  bool multicast = false;                     // to several CTAs at once
  std::uint8_t cta_group = 0;                 // of tcgen05 instructions
  Type to = Type::kNone, type = Type::kNone;  // the last two parts of the mnemonic
  std::int16_t count = 0;                     // matrices; groups that may stay open, -1: not even an open one

  // Before those that call it: Clang evaluates constants with what it has read.
  template <class T>
  constexpr Effects with(T Effects::* member, T value) const {
    Effects other = *this;
    other.*member = value;
    return other;
  }

  // Of a row: it departs from its family in …
  constexpr Effects as(Event e) const { return with(&Effects::event, e); }
  constexpr Effects costing(Cost c) const { return with(&Effects::cost, c); }
  constexpr Effects tainting(TaintRule t) const { return with(&Effects::taint, t); }
  constexpr Effects moving(Motion m) const { return with(&Effects::motion, m); }
  constexpr Effects yielding(Value v) const { return with(&Effects::value, v); }
  constexpr Effects using_barrier(BarrierAct u) const { return with(&Effects::barrier, u); }
  // An operation that signals the mbarrier that its operands name.
  constexpr Effects signalling() const {
    return with(&Effects::releases, static_cast<std::uint8_t>(releases | kArrivesAtMbarrier))
        .with(&Effects::mbarrier, MbarrierAt::kPayload);
  }
};

// The constructors of effects: what rows say.
namespace does {

constexpr Effects computes(Cost cost, TaintRule taint = TaintRule::kCompute) {
  Effects e;
  e.cost = cost;
  e.taint = taint;
  return e;
}

// Nothing that values show: prefetches, cache policies, sleeping.
constexpr Effects hints(Motion motion = Motion::kFree) {
  return computes(Cost::kIssue, TaintRule::kNothing).moving(motion);
}

constexpr Effects acts(Act act, Event event, Cost cost, TaintRule taint, Motion motion) {
  Effects e;
  e.act = act;
  e.event = event;
  e.cost = cost;
  e.taint = taint;
  e.motion = motion;
  return e;
}

// Control flow: branches, calls, exits.
constexpr Effects goes(Act act) {
  return acts(act, Event::kNone, Cost::kIssue, TaintRule::kDecide, Motion::kBranch);
}

constexpr Effects accesses(bool reads, bool writes, bool atomic = false) {
  Effects e = acts(Act::kAccess, Event::kNone, Cost::kGlobal, TaintRule::kAccess, Motion::kFree);
  e.space = Space::kGeneric;
  e.reads = reads;
  e.writes = writes;
  e.atomic = atomic;
  e.returns = reads;
  e.order = atomic ? Order::kRelaxed : Order::kWeak;
  return e;
}
constexpr Effects loads() {
  return accesses(true, false);
}
constexpr Effects stores() {
  return accesses(false, true);
}
// atom; red, which returns nothing.
constexpr Effects updates() {
  return accesses(true, true, true);
}
constexpr Effects reduces() {
  return updates().with(&Effects::returns, false);
}

constexpr Effects moves_rows(bool reads) {
  Effects e = acts(Act::kMatrixRows, Event::kNone, reads ? Cost::kMatrixLoad : Cost::kMatrixStore,
                   TaintRule::kMatrixRows, Motion::kFree);
  e.space = Space::kShared;
  e.reads = reads;
  e.writes = !reads;
  e.bytes = 16;
  return e;
}

constexpr Effects moves_tile(bool reads) {
  Effects e = acts(Act::kMatrixTile, Event::kNone, reads ? Cost::kMatrixLoad : Cost::kMatrixStore,
                   TaintRule::kControl, Motion::kOrdered);
  e.space = Space::kGeneric;
  e.reads = reads;
  e.writes = !reads;
  return e;
}

constexpr Effects clears() {
  Effects e = acts(Act::kClear, Event::kNone, Cost::kSharedStore, TaintRule::kControl, Motion::kOrdered);
  e.space = Space::kShared;
  e.writes = true;
  return e;
}

// A fence of threads or proxies.
constexpr Effects fences(FenceKind kind, Cost cost, Order order = Order::kAcqRel) {
  Effects e = acts(Act::kFence, Event::kFence, cost, TaintRule::kCompute, Motion::kFixed);
  e.fence = kind;
  e.order = order;
  e.space = Space::kGeneric;
  return e;
}

// Orders or completes what tensor cores do.
constexpr Effects settles(FenceKind kind, Event event, Cost cost, TaintRule taint, Motion motion) {
  Effects e = acts(Act::kFence, event, cost, taint, motion);
  e.fence = kind;
  return e;
}

constexpr Effects arrives_at_barrier() {
  Effects e =
      acts(Act::kNamedArrive, Event::kArrive, Cost::kNamedArrive, TaintRule::kControl, Motion::kOrdered);
  e.releases = kArrivesAtBarrier;
  e.barrier = BarrierAct::kArrive;
  return e;
}
constexpr Effects waits_at_barrier() {
  Effects e = acts(Act::kNamedWait, Event::kWait, Cost::kNamedWait, TaintRule::kControl, Motion::kFixed);
  e.releases = kArrivesAtBarrier;
  e.barrier = BarrierAct::kArrive;
  return e;
}
constexpr Effects arrives_at_cluster() {
  Effects e =
      acts(Act::kClusterArrive, Event::kArrive, Cost::kClusterArrive, TaintRule::kControl, Motion::kOrdered);
  e.order = Order::kRelease;
  e.releases = kArrivesAtCluster;
  e.barrier = BarrierAct::kArrive;
  return e;
}
constexpr Effects waits_for_cluster() {
  return acts(Act::kClusterWait, Event::kWait, Cost::kClusterWait, TaintRule::kControl, Motion::kFixed)
      .using_barrier(BarrierAct::kWait);
}

constexpr Effects keeps_mbarrier(Event event, Cost cost) {
  Effects e = acts(Act::kMbarrier, event, cost, TaintRule::kControl, Motion::kOrdered);
  e.mbarrier = MbarrierAt::kAddress;
  e.order = Order::kRelease;
  e.scope = Scope::kCta;
  return e;
}
constexpr Effects arrives_at_mbarrier(Cost cost = Cost::kMbarrierArrive) {
  Effects e = keeps_mbarrier(Event::kArrive, cost);
  e.releases = kArrivesAtMbarrier;
  e.barrier = BarrierAct::kArrive;
  return e;
}
constexpr Effects waits_for_mbarrier() {
  Effects e =
      acts(Act::kMbarrierWait, Event::kWait, Cost::kMbarrierWait, TaintRule::kControl, Motion::kFixed);
  e.mbarrier = MbarrierAt::kAddress;
  e.order = Order::kAcquire;
  e.scope = Scope::kCta;
  e.barrier = BarrierAct::kWait;
  return e;
}

// mma.sync: immediately, from registers into registers.
constexpr Effects multiplies() {
  return acts(Act::kNothing, Event::kMma, Cost::kMma, TaintRule::kWarpWide, Motion::kFree);
}

constexpr Effects syncs_warp() {
  return acts(Act::kWarpSync, Event::kNone, Cost::kFree, TaintRule::kControl, Motion::kFixed);
}

// Lanes meet and see each other's registers.
constexpr Effects exchanges(Cost cost, TaintRule taint) {
  return acts(Act::kWarpExchange, Event::kNone, cost, taint, Motion::kFree);
}

constexpr Effects issues(Event event, Cost cost, TaintRule taint = TaintRule::kControl) {
  return acts(Act::kIssue, event, cost, taint, Motion::kOrdered);
}
constexpr Effects copies(Space to, Space from, Cost cost = Cost::kCopy) {
  Effects e = issues(Event::kCopy, cost);
  e.space = to;
  e.source = from;
  e.writes = true;
  return e;
}
constexpr Effects reduces(Space to, Space from) {
  return copies(to, from).with(&Effects::atomic, true);
}
constexpr Effects prefetches() {
  Effects e = issues(Event::kPrefetch, Cost::kCopy, TaintRule::kNothing);
  e.source = Space::kGlobal;
  return e;
}
constexpr Effects by_map(Effects e) {
  return e.with(&Effects::act, Act::kIssueByMap);
}

constexpr Effects commits(GroupKind group) {
  Effects e = acts(Act::kCommitGroup, Event::kCommit, Cost::kCommit, TaintRule::kControl, Motion::kOrdered);
  e.group = group;
  return e;
}
constexpr Effects waits_for(GroupKind group, Cost cost = Cost::kWait) {
  Effects e = acts(Act::kWaitGroup, Event::kWait, cost, TaintRule::kControl, Motion::kFixed);
  e.group = group;
  return e;
}

constexpr Effects tensor_memory(Act act, Cost cost, TaintRule taint, Motion motion) {
  return acts(act, Event::kTmem, cost, taint, motion);
}

// tcgen05.alloc writes the address that it was given to shared memory.
constexpr Effects allocates() {
  Effects e = tensor_memory(Act::kTmemAlloc, Cost::kTmemAlloc, TaintRule::kControl, Motion::kFixed);
  e.space = Space::kShared;
  e.writes = true;
  e.bytes = 4;
  return e;
}

constexpr Effects keeps_map(Act act) {
  return acts(act, Event::kNone, Cost::kAlu, TaintRule::kControl, Motion::kFree);
}

}  // namespace does

// A row's effects with the modifiers of one mnemonic; `parts`: those after the opcode.
Effects resolve(const Effects& row, std::span<const std::string_view> parts);

// What keeps a compiler from moving an instruction, as the timing model's Order has it.
std::uint8_t motion_bits(const Effects& effects);

// Whether it tests or reads something that others change, again and again in a loop.
bool polls(const Effects& effects);

// Whether PTX orders it with what another cluster does: an atomic or strong access to memory that all
// clusters have, or a fence beyond the cluster.
bool meets_clusters(const Effects& effects);

}  // namespace sglab::emu
