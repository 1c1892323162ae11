#include "emulator/sanitize/sanitizer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "emulator/async/engine.hpp"
#include "emulator/debug/accesses.hpp"
#include "emulator/debug/breakpoints.hpp"
#include "emulator/memory/access.hpp"
#include "emulator/memory/aperture.hpp"
#include "emulator/ops/operands.hpp"
#include "emulator/sanitize/barriers.hpp"
#include "emulator/sanitize/deadlock.hpp"
#include "emulator/sanitize/memory.hpp"
#include "emulator/sanitize/races/detector.hpp"
#include "emulator/sanitize/tensor.hpp"
#include "emulator/tensor/tmem_transfer.hpp"

namespace sglab::emu {
namespace {

using Kind = Meaning::Kind;

constexpr std::uint32_t kMapBytes = 128;

std::uint64_t without_aperture(std::uint64_t address) {
  return address & ~kApertureMask;
}

Space space_of_address(std::uint64_t address) {
  switch (address & kApertureMask) {
    case 0:
      return Space::kGlobal;
    case kSharedAperture:
      return Space::kShared;
    case kLocalAperture:
      return Space::kLocal;
    default:
      return Space::kParam;
  }
}

}  // namespace

Party party(const Actor& actor) {
  Party p;
  p.cta = linear_index(*actor.warp->cta);
  p.warp = actor.warp->index;
  p.lanes = actor.lanes;
  p.pc = actor.inst - actor.warp->code;
  p.position = actor.position;
  p.asynchronous = actor.operation != 0;
  return p;
}

Sanitizer::Sanitizer(Detectors detectors, std::shared_ptr<MarkedMemory> marked) {
  if (detectors.memory) {
    auto memory = std::make_unique<MemorySanitizer>(findings_, std::move(marked));
    memory_ = memory.get();
    observers_.push_back(std::move(memory));
  }
  if (detectors.tensor) observers_.push_back(std::make_unique<TensorSanitizer>(findings_));
  if (detectors.barriers) {
    auto barriers = std::make_unique<BarrierSanitizer>(findings_);
    barriers_ = barriers.get();
    observers_.push_back(std::move(barriers));
  }
  if (detectors.races) observers_.push_back(std::make_unique<races::RaceDetector>(findings_));
}
Sanitizer::~Sanitizer() = default;

void Sanitizer::launched(const Launch& launch) {
  launch_ = &launch;
  if (program_ != launch.program) {
    program_ = launch.program;
    meanings_ = meanings(*program_);
  }
  findings_.clear();
  clusters_.clear();
  held_index_ = ~std::uint64_t{0};
  position_ = findings_.now = 0;
  all([&](Observer& o) { o.launched(launch); });
}

void Sanitizer::cluster_started(const Cluster& cluster) {
  held(cluster) = {};
  all([&](Observer& o) { o.cluster_started(cluster); });
}

void Sanitizer::cluster_finished(const Cluster& cluster) {
  all([&](Observer& o) { o.cluster_finished(cluster); });
  clusters_.erase(cluster.index);
  held_index_ = ~std::uint64_t{0};
}

const Inst* Sanitizer::execute(Warp& w, const Inst* inst) {
  const auto pc = static_cast<std::uint32_t>(inst - w.code);
  const Meaning& meaning = meanings_[pc];
  if (meaning.kind == Kind::kPlain && (memory_ == nullptr || !memory_->follows(w, pc))) {
    const Inst* const next = inst->fn[w.partial](w, inst);
    if (!w.retry && meaning.counts) findings_.now = ++position_;
    return next;
  }
  const std::uint32_t group = w.group_mask;
  std::uint32_t lanes = active_lanes(w, inst);
  look(w, inst, meaning, lanes);
  const Inst* const next = inst->fn[w.partial](w, inst);
  // Lanes that waited there for a .sync instruction have joined.
  if (next == inst + 1 && inst->guard == kNoGuard) lanes = w.group_mask;
  const Actor actor{&w, inst, lanes, position_};
  if (!w.retry || (meaning.kind == Kind::kNamedBarrier && before_.arriving && w.current().arrived))
    if (lanes != 0) tell(actor, meaning);
  if (memory_ != nullptr && !w.retry && memory_->follows(w, pc)) memory_->flow(actor, group);
  if (!w.retry && meaning.counts) findings_.now = ++position_;
  return next;
}

void Sanitizer::look(const Warp& w, const Inst* inst, const Meaning& m, std::uint32_t lanes) {
  switch (m.kind) {
    case Kind::kAccess:
    case Kind::kMatrixRows:
    case Kind::kMbarrierWait:
    case Kind::kReplaceMap:
      return lane_addresses(w, inst, before_.address);
    case Kind::kNamedBarrier:
    case Kind::kClusterArrive:
    case Kind::kClusterWait:
      if (lanes != 0) look_at_barrier(w, inst);
      return;
    case Kind::kAlloc:
      lane_addresses(w, inst, before_.address);
      return look_at_tmem(w, inst, m, lanes);
    case Kind::kRelinquish:
      before_.tmem = {w.cta->rank, 0, 0, 0, 0};
      return;
    case Kind::kDealloc:
    case Kind::kTmemLoad:
    case Kind::kTmemStore:
      return look_at_tmem(w, inst, m, lanes);
    case Kind::kCopyMap:
      for (int lane = 0; lane < 32; ++lane) {
        before_.address[lane] = address_of(w, extra_address(inst, 0, 0), lane);
        before_.second[lane] = address_of(w, extra_address(inst, 1, 2), lane);
      }
      return;
    case Kind::kExit:
      before_.live = w.live;
      return;
    default:
      return;
  }
}

void Sanitizer::look_at_barrier(const Warp& w, const Inst* inst) {
  const Meaning& m = meanings_[static_cast<std::size_t>(inst - w.code)];
  if (m.kind != Kind::kNamedBarrier) {
    before_.arriving = m.kind == Kind::kClusterArrive;
    before_.number = kClusterBarrierNumber;
    before_.threads = 0;
    before_.phase = before_.arriving ? w.cluster->barrier.phase : w.cluster_ticket;
    return;
  }
  const Group& g = w.groups[w.group];
  before_.arriving = !g.arrived;
  if (g.arrived) {
    before_.number = static_cast<std::uint32_t>(g.key);
    before_.phase = g.ticket;
    return;
  }
  const int lane = first_lane(active_lanes(w, inst));
  before_.number = lanes32(w, inst->a)[lane];
  before_.threads = (inst->imm & 1) != 0 ? 0 : lanes32(w, inst->b)[lane];
  before_.phase = before_.number < w.cta->barriers.size() ? w.cta->barriers[before_.number].phase : 0;
}

void Sanitizer::look_at_tmem(const Warp& w, const Inst* inst, const Meaning& m, std::uint32_t lanes) {
  if (lanes == 0) return;
  const int lane = first_lane(lanes);
  TmemRange& range = before_.tmem;
  range.rank = w.cta->rank;
  if (m.kind == Kind::kAlloc || m.kind == Kind::kDealloc) {
    range = {w.cta->rank, 0, TensorMemory::kLanes, 0, lanes32(w, inst->b)[lane]};
    if (m.kind == Kind::kDealloc) range.column = TmemAddress::decode(lanes32(w, inst->a)[lane]).column;
    return;
  }
  const std::int64_t* v = inst->extra->values.data();
  const LdStForm form{static_cast<LdStShape>(v[0]), static_cast<int>(v[1]), v[2] != 0,
                      static_cast<int>(v[3])};
  const TmemAddress at =
      TmemAddress::decode(static_cast<std::uint32_t>(address_of(w, main_address(inst), lane)));
  range = {w.cta->rank, at.lane, static_cast<std::uint32_t>(ld_st_lanes(form)), at.column,
           static_cast<std::uint32_t>(ld_st_columns(form))};
}

void Sanitizer::tell(const Actor& actor, const Meaning& m) {
  const Warp& w = *actor.warp;
  switch (m.kind) {
    case Kind::kPlain:
      break;
    case Kind::kAccess:
    case Kind::kMatrixRows:
      tell_access(actor, m);
      break;
    case Kind::kFence: {
      const Fence fence{m.fence, m.order, m.scope, m.space};
      all([&](Observer& o) { o.fenced(actor, fence); });
      break;
    }
    case Kind::kNamedBarrier:
    case Kind::kClusterArrive:
    case Kind::kClusterWait: {
      const BarrierUse use{before_.number, before_.threads, before_.phase,
                           m.kind == Kind::kClusterArrive ? m.order : Order::kAcqRel};
      if (before_.arriving) all([&](Observer& o) { o.arrived(actor, use); });
      if ((m.waits || m.kind == Kind::kClusterWait) && !w.retry)
        all([&](Observer& o) { o.passed(actor, use); });
      break;
    }
    case Kind::kMbarrierWait:
      tell_mbarrier_wait(actor, m);
      break;
    case Kind::kCommitGroup:
      all([&](Observer& o) { o.committed(actor, m.group); });
      break;
    case Kind::kWaitGroup: {
      const auto pending = static_cast<std::uint32_t>(actor.inst->imm);
      all([&](Observer& o) { o.waited(actor, m.group, pending, m.waits); });
      break;
    }
    case Kind::kAlloc:
    case Kind::kDealloc:
    case Kind::kRelinquish:
    case Kind::kTmemLoad:
    case Kind::kTmemStore:
      tell_tmem(actor, m);
      break;
    case Kind::kReplaceMap:
    case Kind::kCopyMap:
      tell_maps(actor, m);
      break;
    case Kind::kWarpSync:
      all([&](Observer& o) { o.warp_synced(actor, m.waits); });
      break;
    case Kind::kExit: {
      Actor gone = actor;
      gone.lanes = before_.live & ~w.live;
      if (gone.lanes != 0) all([&](Observer& o) { o.exited(gone); });
      break;
    }
  }
}

void Sanitizer::tell_one_access(const Actor& actor, Space space, const std::uint64_t* address,
                                std::uint32_t lanes, std::uint32_t bytes, bool reads, bool writes) {
  if (lanes == 0) return;
  const Meaning& m = meanings_[static_cast<std::size_t>(actor.inst - actor.warp->code)];
  const Access access{space, reads, writes, m.atomic, m.order, m.scope, lanes, bytes, address};
  all([&](Observer& o) { o.accessed(actor, access); });
}

void Sanitizer::tell_access(const Actor& actor, const Meaning& m) {
  if (m.kind == Kind::kMatrixRows) {
    const std::uint32_t rows = m.rows >= 32 ? 0xffffffffu : (1u << m.rows) - 1;
    for (std::uint64_t& address : before_.address) address = without_aperture(address);
    return tell_one_access(actor, m.space, before_.address, rows, m.bytes, m.reads, m.writes);
  }
  if (m.space != Space::kGeneric)
    return tell_one_access(actor, m.space, before_.address, actor.lanes, m.bytes, m.reads, m.writes);
  for (const Space space : {Space::kGlobal, Space::kShared, Space::kLocal}) {
    std::uint32_t lanes = 0;
    for (std::uint32_t rest = actor.lanes; rest != 0; rest &= rest - 1) {
      const int lane = first_lane(rest);
      if (space_of_address(before_.address[lane]) != space) continue;
      before_.second[lane] = without_aperture(before_.address[lane]);
      lanes |= 1u << lane;
    }
    tell_one_access(actor, space, before_.second, lanes, m.bytes, m.reads, m.writes);
  }
}

// tensormap.replace and tensormap.cp_fenceproxy.
void Sanitizer::tell_maps(const Actor& actor, const Meaning& m) {
  const std::uint32_t first = actor.lanes & (0u - actor.lanes);
  const std::uint32_t lanes = m.kind == Kind::kCopyMap ? first : actor.lanes;
  const std::uint64_t at = before_.address[first_lane(first) & 31];
  const bool in_shared = m.kind == Kind::kReplaceMap &&
                         (actor.inst->target != 0 || at >> 32 == 0 || space_of_address(at) == Space::kShared);
  const Space space = in_shared ? Space::kShared : Space::kGlobal;
  for (std::uint64_t& address : before_.address) address = without_aperture(address);
  if (m.kind == Kind::kCopyMap) {
    for (std::uint64_t& address : before_.second) address = without_aperture(address);
    tell_one_access(actor, Space::kShared, before_.second, lanes, kMapBytes, true, false);
  }
  if (at >> 56 == kParamAperture >> 56) return;
  tell_one_access(actor, space, before_.address, lanes, kMapBytes, m.kind == Kind::kReplaceMap, true);
  if (m.kind != Kind::kCopyMap) return;
  const Fence fence{Fence::Kind::kProxyTensormap, Order::kRelease, Scope::kGpu, Space::kGlobal};
  all([&](Observer& o) { o.fenced(actor, fence); });
}

void Sanitizer::tell_mbarrier_wait(const Actor& actor, const Meaning& m) {
  const Warp& w = *actor.warp;
  const auto& phases = held(*w.cluster).phases;
  for (std::uint64_t& address : before_.address) address = without_aperture(address);
  std::uint32_t rest = actor.lanes & w.predicates[actor.inst->d];
  while (rest != 0) {
    const auto address = static_cast<std::uint32_t>(before_.address[first_lane(rest) & 31]);
    Actor some = actor;
    some.lanes = 0;
    for (std::uint32_t lane = 0; lane < 32; ++lane) {
      if (before_.address[lane] == address) some.lanes |= rest & 1u << lane;
    }
    rest &= ~some.lanes;
    const auto known = phases.find(address);
    const std::int64_t phase = known == phases.end() ? -1 : static_cast<std::int64_t>(known->second) - 1;
    const MbarrierWait wait{address, phase, m.order, m.scope};
    all([&](Observer& o) { o.mbarrier_passed(some, wait); });
  }
}

void Sanitizer::tell_tmem(const Actor& actor, const Meaning& m) {
  const Warp& w = *actor.warp;
  constexpr std::pair<Kind, TmemUse::Op> kOps[] = {{Kind::kAlloc, TmemUse::Op::kAlloc},
                                                   {Kind::kDealloc, TmemUse::Op::kDealloc},
                                                   {Kind::kRelinquish, TmemUse::Op::kRelinquish},
                                                   {Kind::kTmemLoad, TmemUse::Op::kLoad},
                                                   {Kind::kTmemStore, TmemUse::Op::kStore}};
  TmemUse use{TmemUse::Op::kAlloc, before_.tmem};
  for (const auto& [kind, op] : kOps) {
    if (kind == m.kind) use.op = op;
  }
  if (m.kind == Kind::kAlloc) {
    for (std::uint64_t& address : before_.address) address = without_aperture(address);
    const std::uint32_t first = actor.lanes & (0u - actor.lanes);
    const auto place = static_cast<std::uint32_t>(before_.address[first_lane(first)]);
    std::uint32_t value;
    std::memcpy(&value, w.cluster->ctas[place >> kSharedRankShift].shared + (place & kSharedOffsetMask), 4);
    use.range.column = TmemAddress::decode(value).column;
    tell_one_access(actor, Space::kShared, before_.address, first, 4, false, true);
  }
  all([&](Observer& o) { o.tensor_memory(actor, use); });
}

Actor Sanitizer::actor_of(const Cluster& cluster, const Issuer& issuer, std::uint32_t lanes) {
  if (lanes == 0 && issuer.lane >= 0) lanes = 1u << issuer.lane;
  const Warp& w = cluster.warps[issuer.warp];
  if (issuer.operation == 0) return {&w, issuer.inst, lanes, position_};
  Actor actor = held(cluster).operations.at(issuer.operation - 1);
  if (lanes != 0) actor.lanes = lanes;
  return actor;
}

void Sanitizer::issued(const Cluster& cluster, const Issuer& issuer, std::uint32_t lanes, AsyncOp op) {
  const Actor actor{&cluster.warps[issuer.warp], issuer.inst, lanes, position_, op.id};
  std::vector<Actor>& known = held(cluster).operations;
  if (known.size() < op.id) known.resize(op.id, actor);  // of a wgmma, its first warp
  all([&](Observer& o) { o.issued(actor, op); });
}

void Sanitizer::performed(const Cluster& cluster, const Issuer& issuer, std::uint32_t lanes, AsyncOp op,
                          const Footprint& footprint) {
  const Actor actor = actor_of(cluster, issuer, lanes);
  all([&](Observer& o) { o.performed(actor, op, footprint); });
}

void Sanitizer::mbarrier(const Cluster& cluster, const Issuer& issuer, std::uint32_t lanes,
                         std::uint32_t address, MbarrierStatus status, const MbarrierUse& use) {
  const Actor actor = actor_of(cluster, issuer, lanes);
  std::uint64_t& phase = held(cluster).phases[address];
  if (use.op == MbarrierUse::Op::kInit && !is_misuse(status)) phase = 0;
  if (status == MbarrierStatus::kInitOfLiveObject) phase = 0;
  MbarrierEvent event{use, address, phase, status, Order::kRelease, Scope::kCta};
  if (issuer.operation == 0) {
    const std::string_view opcode =
        opcode_of(*program_, static_cast<std::uint32_t>(issuer.inst - actor.warp->code));
    event.order = order_of(opcode, Order::kRelease);
    event.scope = scope_of(opcode, Scope::kCta);
  }
  if (status == MbarrierStatus::kPhaseComplete) ++phase;
  all([&](Observer& o) { o.mbarrier(actor, event); });
}

Party Sanitizer::party(const WaitLink& link) const {
  const auto& grid = launch_->config.grid;
  Party p;
  p.cta = link.cta[0] + std::int64_t{grid[0]} * (link.cta[1] + std::int64_t{grid[1]} * link.cta[2]);
  p.warp = link.warp;
  p.lanes = link.lanes;
  p.pc = link.pc;
  p.position = position_;
  return p;
}

// A fault is a finding, too; observers may know more about it.
void Sanitizer::failed(const Fault& fault) {
  if (fault.kind == "finding" || fault.kind == "interrupted" || fault.kind == "launch") return;
  Finding finding;
  finding.detector = "launch";
  finding.kind = fault.kind;
  finding.message = fault.message;
  if (fault.warp >= 0) {
    const auto& grid = launch_->config.grid;
    finding.at.cta =
        fault.cta[0] + std::int64_t{grid[0]} * (fault.cta[1] + std::int64_t{grid[1]} * fault.cta[2]);
    finding.at.warp = static_cast<std::uint32_t>(fault.warp);
    finding.at.lanes = fault.lane >= 0 ? 1u << fault.lane : 0;
    finding.at.pc = fault.pc;
  }
  if (!fault.cycle.empty()) {
    finding.message = "no warp can go on:" + describe(fault.cycle);
    const WaitLink& first = fault.cycle.front();
    finding.at = party(first);
    if (first.next > 0) {
      finding.other = party(fault.cycle[static_cast<std::size_t>(first.next)]);
      finding.other_did = "was to end the wait";
    }
  }
  finding.at.position = position_;
  all([&](Observer& o) { o.explain(fault, finding); });
  findings_.add(std::move(finding));
}

}  // namespace sglab::emu
